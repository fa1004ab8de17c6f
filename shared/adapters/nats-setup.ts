import { isDeepStrictEqual } from 'node:util';
import type { JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream';
import { JetStreamApiError, jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import type { NatsConnection } from 'nats';
import type { ConsumerSpec, StreamName, StreamSpec } from '../domain/topology.ts';
import { PARTITIONS, STATE_BUCKET, STREAMS, streamsWith } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/telemetry.ts';
import { consumerConfig, MANAGED_METADATA, SETUP_TIMEOUT_MS, streamConfig } from './nats-config.ts';
import { busErrorOf, CONSUMER_NOT_FOUND, isFault, STREAM_NOT_FOUND } from './nats-errors.ts';
import { BacklogError, repartition } from './nats-repartition.ts';

export type BusSetupOptions = {
  /** All that there shall be: others that an earlier setup made are removed. */
  readonly consumers: readonly ConsumerSpec[];
  /** Of OBSERVATIONS; `consumers` must be as many. @defaultValue what this release has */
  readonly partitions?: number;
  /** How long OBSERVATIONS may stay closed when its partitions change. @defaultValue 10 s */
  readonly drainTimeoutMs?: number;
  /** Copies of each stream in the cluster. @defaultValue 1 */
  readonly replicas?: number;
  /** Bounds other than the topology's: what is older, or beyond, is dropped. */
  readonly maxBytes?: Partial<Readonly<Record<StreamName | typeof STATE_BUCKET, number>>>;
  readonly maxAgeMs?: Partial<Readonly<Record<StreamName, number>>>;
  /** Kept with each stream, such as which cluster the account belongs to; another value there is an error. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Roughly the server's, too: sequences of GATEWAYS start from its wall clock. */
  readonly clock: Clock;
  readonly log: Logger;
};

export type SetupChange = {
  readonly kind: 'stream' | 'consumer' | 'bucket';
  readonly name: string;
  readonly change: 'created' | 'updated' | 'removed' | 'unchanged';
  /** Fields that were updated. */
  readonly fields: readonly string[];
};

/**
 * What is on the server cannot be made what the topology says, with stream, field and what to do:
 * - `SETUP_CONFLICT`: until somebody changes it
 * - `SETUP_BACKLOG`: until events that wait are handled
 */
export class BusSetupError extends Error {
  readonly code: 'SETUP_CONFLICT' | 'SETUP_BACKLOG';
  constructor(message: string, options: ErrorOptions & { readonly code?: BusSetupError['code'] } = {}) {
    super(message, options);
    this.name = 'BusSetupError';
    this.code = options.code ?? 'SETUP_CONFLICT';
  }
}

/** Of an event cut to `MAX_DEAD_LETTER_BYTES`, in base64, with up to 64 KiB of headers. */
const MIN_PAYLOAD_BYTES = 1024 * 1024;
const STATE_MAX_BYTES = 64 * 1024 * 1024;
/** Under the default of --gateway-silent-after: nobody takes the gateways for silent meanwhile. */
const DRAIN_TIMEOUT_MS = 10_000;
/** What only the creation of a consumer may say; one that was made anew starts elsewhere, rightly. */
const CREATION_FIELDS = ['deliver_policy', 'opt_start_seq', 'durable_name', 'name'];

/**
 * Makes streams, consumers and the KV bucket what the topology says. Does nothing to what is so already.
 *
 * @throws BusSetupError where something differs that cannot be updated; BusError where the server does not answer or refuses.
 */
export async function setupBus(connection: NatsConnection, options: BusSetupOptions): Promise<readonly SetupChange[]> {
  requireRoomForDeadLetters(connection);
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: SETUP_TIMEOUT_MS });
  const changes: SetupChange[] = [];
  const note = (change: SetupChange) => {
    changes.push(change);
    options.log.info(change, `${change.kind} ${change.change}`);
  };
  for (const spec of streamsWith(options.partitions ?? PARTITIONS)) note(await setUpStream(manager, spec, options));
  for (const spec of options.consumers) note(await setUpConsumer(manager, spec));
  for (const { name } of STREAMS) (await removeLeftovers(manager, name, options.consumers)).forEach(note);
  note(await setUpBucket(manager, options));
  return changes;
}

/** A dead letter that the server refuses would come back for ever, and hold up its partition. */
function requireRoomForDeadLetters({ info }: NatsConnection): void {
  const { max_payload: bytes = 0 } = info ?? {};
  if (bytes >= MIN_PAYLOAD_BYTES) return;
  throw new BusSetupError(
    `max_payload of nats-server is ${bytes} bytes: a dead letter is up to ${MIN_PAYLOAD_BYTES}, which is nats-server's ` +
      'default: raise max_payload and run `wg-keepalive setup` again',
  );
}

/**
 * Makes the next epoch that GATEWAYS gives out at least `epoch`: after a restore from a backup the sequences go on from
 * there, below epochs that were given out since, and a gateway that starts would be stale. Only a purge moves them, so
 * what the stream holds is dropped; a gateway announces itself again when it comes back to NATS.
 */
export async function raiseEpoch(connection: NatsConnection, epoch: number): Promise<void> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: SETUP_TIMEOUT_MS });
  await manager.streams.purge('GATEWAYS', { seq: epoch }).catch((error) => {
    throw busErrorOf(`purge GATEWAYS up to ${epoch}`, error);
  });
}

async function setUpStream(
  manager: JetStreamManager,
  spec: StreamSpec,
  options: BusSetupOptions,
): Promise<SetupChange> {
  const maxAgeMs = options.maxAgeMs?.[spec.name] ?? spec.maxAgeMs;
  const bounded = maxAgeMs === undefined ? spec : { ...spec, maxAgeMs };
  const wanted = streamConfig(bounded, {
    replicas: options.replicas ?? 1,
    maxBytes: options.maxBytes?.[spec.name] ?? spec.maxBytes,
    metadata: options.metadata ?? {},
  });
  const existing = await find(() => manager.streams.info(spec.name), STREAM_NOT_FOUND, `stream ${spec.name}`);
  if (!existing) {
    const first = spec.firstSequenceFromClock ? { first_seq: options.clock.unixMs() } : {};
    await manager.streams.add({ ...wanted, ...first }).catch((error) => {
      throw noRoom(`stream ${spec.name}`, wanted, error) ?? busErrorOf(`create stream ${spec.name}`, error);
    });
    return { kind: 'stream', name: spec.name, change: 'created', fields: [] };
  }
  if (existing.config.subject_transform?.dest !== wanted.subject_transform?.dest) {
    return changePartitions(manager, existing.config, wanted, options);
  }
  return updateStream(manager, 'stream', spec.name, existing, wanted);
}

async function changePartitions(
  manager: JetStreamManager,
  present: StreamConfig,
  wanted: Partial<StreamConfig> & { readonly name: string },
  { clock, consumers, drainTimeoutMs = DRAIN_TIMEOUT_MS }: BusSetupOptions,
): Promise<SetupChange> {
  const { name } = wanted;
  const metadata = mergedMetadata(name, present, wanted);
  try {
    const own = consumers.filter(({ stream }) => stream === name);
    await repartition(manager, present, { ...wanted, metadata }, { clock, consumers: own, drainTimeoutMs });
  } catch (error) {
    if (!(error instanceof BacklogError)) throw error;
    throw new BusSetupError(
      `stream ${name}: its partitions cannot change while events wait in ${error.message}: let the functions of the ` +
        `present release handle them and run \`wg-keepalive setup\` again, or drop them: nats stream purge ${name}`,
      { cause: error, code: 'SETUP_BACKLOG' },
    );
  }
  return { kind: 'stream', name, change: 'updated', fields: ['subject_transform'] };
}

async function setUpBucket(manager: JetStreamManager, options: BusSetupOptions): Promise<SetupChange> {
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
  const merged = { ...wanted, metadata: mergedMetadata(`${kind} ${name}`, config, wanted) };
  const fields = differences(config, merged);
  if (fields.length === 0) return { kind, name, change: 'unchanged', fields };
  await manager.streams.update(wanted.name, merged).catch((error) => {
    throw noRoom(`${kind} ${name}`, wanted, error) ?? conflict(`${kind} ${name}`, config, merged, fields, error);
  });
  return { kind, name, change: 'updated', fields };
}

/** @throws BusSetupError where it says something else already */
function mergedMetadata(what: string, present: Partial<StreamConfig>, wanted: Partial<StreamConfig>) {
  for (const [key, value] of Object.entries(wanted.metadata ?? {})) {
    const said = present.metadata?.[key];
    if (said !== undefined && said !== value) {
      throw new BusSetupError(
        `${what}: metadata ${key} is ${said}, want ${value}: this NATS account belongs to another cluster`,
      );
    }
  }
  return { ...present.metadata, ...wanted.metadata };
}

/** Removes consumers that a setup made, and that no function has any more: those of other people stay. */
async function removeLeftovers(
  manager: JetStreamManager,
  stream: StreamName,
  consumers: readonly ConsumerSpec[],
): Promise<readonly SetupChange[]> {
  const wanted = new Set(consumers.filter((spec) => spec.stream === stream).map(({ durable }) => durable));
  const leftovers: string[] = [];
  for await (const { name, config } of manager.consumers.list(stream)) {
    if (!wanted.has(name) && config.metadata?.[MANAGED_METADATA] !== undefined) leftovers.push(name);
  }
  for (const name of leftovers) {
    await manager.consumers.delete(stream, name).catch((error) => {
      if (!isFault(error, CONSUMER_NOT_FOUND)) throw busErrorOf(`delete consumer ${stream}/${name}`, error);
    });
  }
  return leftovers.map((name) => ({ kind: 'consumer', name: `${stream}/${name}`, change: 'removed', fields: [] }));
}

async function setUpConsumer(manager: JetStreamManager, spec: ConsumerSpec): Promise<SetupChange> {
  const name = `${spec.stream}/${spec.durable}`;
  const existing = await find(
    () => manager.consumers.info(spec.stream, spec.durable),
    CONSUMER_NOT_FOUND,
    `consumer ${name}`,
  );
  const config = consumerConfig(spec);
  const wanted = { ...config, metadata: { ...existing?.config.metadata, ...config.metadata } }; // the server adds its own
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
  return new BusSetupError(`${what} cannot be updated (${error.message}): ${list.join('; ')}; ${hint}`, {
    cause: error,
  });
}

/** The server sets a stream's bound aside in full, whatever it holds. `undefined` where that is not what is wrong. */
function noRoom(what: string, { max_bytes }: Partial<StreamConfig>, error: unknown): BusSetupError | undefined {
  const { code, message } = busErrorOf(`max_bytes ${max_bytes}`, error);
  if (code !== 'full') return undefined;
  const hint = 'raise max_file_store of nats-server, or the limit of its account, or want less';
  return new BusSetupError(`${what}: ${message}: ${hint}`, { cause: error });
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
