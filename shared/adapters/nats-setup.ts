import { isDeepStrictEqual } from 'node:util';
import type { JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream';
import { JetStreamApiError, jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import type { NatsConnection } from 'nats';
import { type ConsumerSpec, STATE_BUCKET, STREAMS, type StreamName, type StreamSpec } from '../domain/topology.ts';
import type { Logger } from '../ports/telemetry.ts';
import { consumerConfig, SETUP_TIMEOUT_MS, streamConfig } from './nats-config.ts';
import { busErrorOf, CONSUMER_NOT_FOUND, isFault, STREAM_NOT_FOUND } from './nats-errors.ts';

export type SetupOptions = {
  readonly consumers: readonly ConsumerSpec[];
  /** Copies of each stream in the cluster. @defaultValue 1 */
  readonly replicas?: number;
  /** Bounds other than the topology's, for small disks. */
  readonly maxBytes?: Partial<Readonly<Record<StreamName | typeof STATE_BUCKET, number>>>;
  /** Kept with each stream, such as which cluster the account belongs to; another value there is an error. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** The server's clock, roughly: where sequences of GATEWAYS start. */
  readonly unixMs: number;
  readonly log: Logger;
};

export type SetupChange = {
  readonly kind: 'stream' | 'consumer' | 'bucket';
  readonly name: string;
  readonly change: 'created' | 'updated' | 'unchanged';
  /** Fields that were updated. */
  readonly fields: readonly string[];
};

/** What is on the server cannot be made what the topology says. The message names stream and field, and what to do. */
export class SetupError extends Error {
  readonly code = 'SETUP_CONFLICT';
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SetupError';
  }
}

const STATE_MAX_BYTES = 64 * 1024 * 1024;
/** What only the creation of a consumer may say; one that was made anew starts elsewhere, rightly. */
const CREATION_FIELDS = ['deliver_policy', 'opt_start_seq', 'durable_name', 'name'];

/**
 * Makes streams, consumers and the KV bucket what the topology says. Does nothing to what is so already.
 *
 * @throws SetupError where something differs that cannot be updated; BusError where the server does not answer or refuses.
 */
export async function setupBus(connection: NatsConnection, options: SetupOptions): Promise<readonly SetupChange[]> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: SETUP_TIMEOUT_MS });
  const changes: SetupChange[] = [];
  const note = (change: SetupChange) => {
    changes.push(change);
    options.log.info(change, `${change.kind} ${change.change}`);
  };
  for (const spec of STREAMS) note(await setUpStream(manager, spec, options));
  for (const spec of options.consumers) note(await setUpConsumer(manager, spec));
  note(await setUpBucket(manager, options));
  return changes;
}

/**
 * Makes the next sequence of a stream at least `sequence`, by a purge: after a restore from a backup, epochs of
 * GATEWAYS must be higher than any that was given out. What the stream holds is dropped; gateways announce themselves again.
 */
export async function raiseSequence(connection: NatsConnection, stream: StreamName, sequence: number): Promise<void> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: SETUP_TIMEOUT_MS });
  await manager.streams.purge(stream, { seq: sequence }).catch((error) => {
    throw busErrorOf(`purge ${stream} up to ${sequence}`, error);
  });
}

async function setUpStream(manager: JetStreamManager, spec: StreamSpec, options: SetupOptions): Promise<SetupChange> {
  const wanted = streamConfig(spec, {
    replicas: options.replicas ?? 1,
    maxBytes: options.maxBytes?.[spec.name] ?? spec.maxBytes,
    metadata: options.metadata ?? {},
  });
  const existing = await find(() => manager.streams.info(spec.name), STREAM_NOT_FOUND, `stream ${spec.name}`);
  if (!existing) {
    const first = spec.firstSequenceFromClock ? { first_seq: options.unixMs } : {};
    await manager.streams.add({ ...wanted, ...first }).catch((error) => {
      throw busErrorOf(`create stream ${spec.name}`, error);
    });
    return { kind: 'stream', name: spec.name, change: 'created', fields: [] };
  }
  return updateStream(manager, 'stream', spec.name, existing, wanted);
}

async function setUpBucket(manager: JetStreamManager, options: SetupOptions): Promise<SetupChange> {
  const replicas = options.replicas ?? 1;
  const max_bytes = options.maxBytes?.[STATE_BUCKET] ?? STATE_MAX_BYTES;
  const metadata = { ...options.metadata };
  const stream = `KV_${STATE_BUCKET}`;
  const existing = await find(() => manager.streams.info(stream), STREAM_NOT_FOUND, `bucket ${STATE_BUCKET}`);
  if (existing) {
    const wanted = { name: stream, num_replicas: replicas, max_bytes, max_msgs_per_subject: 1, metadata };
    return updateStream(manager, 'bucket', STATE_BUCKET, existing, wanted);
  }
  await new Kvm(manager.jetstream())
    .create(STATE_BUCKET, { history: 1, replicas, max_bytes, metadata })
    .catch((error) => {
      throw busErrorOf(`create bucket ${STATE_BUCKET}`, error);
    });
  return { kind: 'bucket', name: STATE_BUCKET, change: 'created', fields: [] };
}

async function updateStream(
  manager: JetStreamManager,
  kind: 'stream' | 'bucket',
  name: string,
  { config }: StreamInfo,
  wanted: Partial<StreamConfig> & { readonly name: string },
): Promise<SetupChange> {
  for (const [key, value] of Object.entries(wanted.metadata ?? {})) {
    const present = config.metadata?.[key];
    if (present !== undefined && present !== value) {
      throw new SetupError(
        `${kind} ${name}: metadata ${key} is ${present}, want ${value}: this NATS account belongs to another cluster`,
      );
    }
  }
  const merged = { ...wanted, metadata: { ...config.metadata, ...wanted.metadata } };
  const fields = differences(config, merged);
  if (fields.length === 0) return { kind, name, change: 'unchanged', fields };
  await manager.streams.update(wanted.name, merged).catch((error) => {
    throw conflict(`${kind} ${name}`, config, merged, fields, error);
  });
  return { kind, name, change: 'updated', fields };
}

async function setUpConsumer(manager: JetStreamManager, spec: ConsumerSpec): Promise<SetupChange> {
  const name = `${spec.stream}/${spec.durable}`;
  const wanted = consumerConfig(spec);
  const existing = await find(
    () => manager.consumers.info(spec.stream, spec.durable),
    CONSUMER_NOT_FOUND,
    `consumer ${name}`,
  );
  if (!existing) {
    await manager.consumers.add(spec.stream, wanted).catch((error) => {
      throw busErrorOf(`create consumer ${name}`, error);
    });
    return { kind: 'consumer', name, change: 'created', fields: [] };
  }
  const fields = differences(existing.config, wanted).filter((field) => !CREATION_FIELDS.includes(field));
  if (fields.length === 0) return { kind: 'consumer', name, change: 'unchanged', fields };
  const changed = Object.fromEntries(fields.map((field) => [field, wanted[field as keyof typeof wanted]]));
  if ('filter_subject' in changed) changed.filter_subjects = undefined; // the server takes one form or the other
  if ('filter_subjects' in changed) changed.filter_subject = wanted.filter_subject;
  await manager.consumers.update(spec.stream, spec.durable, changed).catch((error) => {
    throw conflict(`consumer ${name}`, existing.config, wanted, fields, error);
  });
  return { kind: 'consumer', name, change: 'updated', fields };
}

/** Names of the wanted fields whose value is another one at present. */
function differences(present: object, wanted: object): string[] {
  return Object.entries(wanted).flatMap(([field, value]) =>
    isDeepStrictEqual((present as Record<string, unknown>)[field], value) ? [] : [field],
  );
}

function conflict(what: string, present: object, wanted: object, fields: readonly string[], error: unknown): Error {
  if (!(error instanceof JetStreamApiError)) return busErrorOf(`update ${what}`, error);
  const shown = (config: object, field: string) => JSON.stringify((config as Record<string, unknown>)[field]);
  const list = fields.map((field) => `${field} is ${shown(present, field)}, want ${shown(wanted, field)}`);
  const hint = 'set it back, or delete it by hand and run `wg-keepalive setup` again';
  return new SetupError(`${what} cannot be updated (${error.message}): ${list.join('; ')}; ${hint}`, { cause: error });
}

/** `undefined` where the server says that it does not exist. */
async function find<Info>(ask: () => Promise<Info>, notFound: number, what: string): Promise<Info | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (isFault(error, notFound)) return undefined;
    throw busErrorOf(what, error);
  }
}
