import type { JetStreamManager, StreamConfig } from '@nats-io/jetstream';
import type { ConsumerSpec } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import { consumerConfig, MANAGED_METADATA } from './nats-config.ts';
import { busErrorOf, CONSUMER_EXISTS, isFault } from './nats-errors.ts';

export type RepartitionOptions = {
  readonly clock: Clock;
  /** What reads from the stream by the new partitions. */
  readonly consumers: readonly ConsumerSpec[];
  /** How long the stream may stay closed for what it holds to be handled. */
  readonly drainTimeoutMs: number;
};

/** What is still in a consumer: not delivered, or delivered and not settled. */
type Backlog = ReadonlyMap<string, number>;

const POLL_MS = 100;
/** A message that was on its way when the stream was closed is in it by then. */
const SETTLED_MS = 500;

/** What waits, as `CONSUMER EVENTS, …`. The stream is open again, as it was. */
export class BacklogError extends Error {
  constructor(backlog: Backlog) {
    super([...backlog].map(([name, events]) => `${name} ${events}`).join(', '));
    this.name = 'BacklogError';
  }
}

/**
 * Gives a stream that is in use another number of partitions. A Connection moves from one consumer to another, and the
 * two know nothing of each other; so the first must have handled all that is before what the other gets:
 *
 * 1. The stream takes nothing more. Who publishes is refused and keeps what it has to say.
 * 2. Its functions handle what it holds, which takes them a moment.
 * 3. New consumers are made, from here on; one update brings the new partitions and opens the stream.
 *
 * What a run leaves that ended halfway, the next one takes up: a closed stream has the old partitions still.
 *
 * @throws BacklogError if something was not handled in time: no function of the old release runs
 */
export async function repartition(
  manager: JetStreamManager,
  present: StreamConfig,
  wanted: Partial<StreamConfig> & { readonly name: string },
  options: RepartitionOptions,
): Promise<void> {
  const { name } = wanted;
  const opened = { ...present, subjects: wanted.subjects ?? present.subjects };
  await update(manager, { ...present, subjects: [closedSubject(name)] });
  try {
    const lastSequence = await drained(manager, name, options);
    await makeConsumers(manager, options.consumers, lastSequence + 1);
  } catch (error) {
    await update(manager, opened);
    throw error;
  }
  await update(manager, { ...present, ...wanted });
}

/** Nobody publishes here; a stream must have some subject. */
function closedSubject(stream: string): string {
  return `closed.${stream}`;
}

/** The last sequence of the stream, once everything up to there is settled. */
async function drained(manager: JetStreamManager, stream: string, options: RepartitionOptions): Promise<number> {
  const { clock, drainTimeoutMs } = options;
  const deadlineMs = clock.monotonicMs() + drainTimeoutMs;
  let last = -1;
  let lastChangeMs = clock.monotonicMs();
  for (;;) {
    const { state } = await manager.streams.info(stream);
    if (state.last_seq !== last) lastChangeMs = clock.monotonicMs();
    last = state.last_seq;
    const backlog = await backlogOf(manager, stream);
    if (backlog.size === 0 && clock.monotonicMs() - lastChangeMs >= SETTLED_MS) return last;
    if (clock.monotonicMs() > deadlineMs) throw new BacklogError(backlog);
    await clock.sleep(POLL_MS);
  }
}

async function backlogOf(manager: JetStreamManager, stream: string): Promise<Backlog> {
  const backlog = new Map<string, number>();
  for await (const { name, config, num_pending, num_ack_pending } of manager.consumers.list(stream)) {
    const events = num_pending + num_ack_pending;
    if (events > 0 && config.metadata?.[MANAGED_METADATA] !== undefined) backlog.set(name, events);
  }
  return backlog;
}

/** One that is there already has handled everything, and goes on from there by itself. */
async function makeConsumers(
  manager: JetStreamManager,
  consumers: readonly ConsumerSpec[],
  startSequence: number,
): Promise<void> {
  for (const spec of consumers) {
    await manager.consumers.add(spec.stream, consumerConfig(spec, startSequence)).catch((error) => {
      if (!isFault(error, ...CONSUMER_EXISTS)) throw busErrorOf(`create consumer ${spec.durable}`, error);
    });
  }
}

async function update(manager: JetStreamManager, config: Partial<StreamConfig> & { readonly name: string }) {
  await manager.streams.update(config.name, config).catch((error) => {
    throw busErrorOf(`update stream ${config.name}`, error);
  });
}
