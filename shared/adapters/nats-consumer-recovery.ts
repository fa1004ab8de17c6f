import type { JetStreamManager, StreamInfo } from '@nats-io/jetstream';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import { type ConsumerSpec, partitionsIn } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type { StoredMessage } from '../ports/event-bus.ts';
import { API_TIMEOUT_MS, consumerConfig } from './nats-config.ts';
import { CONSUMER_EXISTS, CONSUMER_NOT_FOUND, isFault, STREAM_NOT_FOUND } from './nats-errors.ts';

/** What was settled since the last look at a consumer that several work on comes again where it is made anew. */
const LOOK_EVERY_MS = 30_000;

/** Every message up to this one is settled. By the server's clock, its stream existed at that time. */
type Floor = { readonly streamSequence: number; readonly existedAtUnixMs: number };

/** Remembers of a consumer what it takes to make it anew, and does so where it is gone: nothing is lost, little comes twice. */
export class ConsumerRecovery {
  readonly #spec: ConsumerSpec;
  readonly #clock: Clock;
  readonly #isOrdered: boolean;
  #floor: Floor | undefined;
  #lastLookMs = Number.NEGATIVE_INFINITY;

  constructor(spec: ConsumerSpec, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
    this.#isOrdered = spec.maxAckPending === 1;
  }

  /** Where one message at a time is in work, none comes before the last one is settled, its retries included. */
  settled({ streamSequence, storedAtUnixMs }: StoredMessage): void {
    if (this.#isOrdered) this.#floor = { streamSequence, existedAtUnixMs: storedAtUnixMs };
  }

  /**
   * Where several are in work, only the server knows what other replicas hold, or gave back for later: asks it, if that
   * was long ago. Call it as often as you like; what it cannot learn now it learns another time.
   */
  async look(connection: NatsConnection): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#isOrdered || nowMs - this.#lastLookMs < LOOK_EVERY_MS) return;
    this.#lastLookMs = nowMs;
    try {
      const { consumers } = await managerOf(connection);
      const { ack_floor, created } = await consumers.info(this.#spec.stream, this.#spec.durable);
      this.#floor = { streamSequence: ack_floor.stream_seq, existedAtUnixMs: Date.parse(created) };
    } catch {
      // An older floor is lower: safe. What is wrong with the consumer shows in the answers to pulls.
    }
  }

  /**
   * Finds out why pulls are refused and mends it: makes the consumer anew where it is gone, from behind the floor. Many
   * replicas do so at once; whoever is first wins, and the others accept.
   *
   * @returns what is wrong for good, or `undefined` once pulling is worth another try
   * @throws the client's error if there is no answer
   */
  async mend(connection: NatsConnection): Promise<string | undefined> {
    const spec = this.#spec;
    try {
      const manager = await managerOf(connection);
      if (await isGone(manager, spec)) {
        const stream = await manager.streams.info(spec.stream);
        const partitions = partitionsIn(stream.config.subject_transform?.dest ?? '');
        if (partitions !== undefined && spec.partition !== undefined && spec.partition >= partitions) {
          return `stream ${spec.stream} has ${partitions} partitions now, none of them ${spec.partition}: setup was run by another release`;
        }
        await manager.consumers.add(spec.stream, consumerConfig(spec, startSequence(stream, this.#floor)));
      }
      return undefined;
    } catch (error) {
      if (isFault(error, STREAM_NOT_FOUND)) return `there is no stream ${spec.stream}: run \`wg-keepalive setup\``;
      if (isFault(error, ...CONSUMER_EXISTS)) return undefined;
      throw error;
    }
  }
}

function managerOf(connection: NatsConnection): Promise<JetStreamManager> {
  return jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
}

/** @throws the client's error, that for a missing stream included */
async function isGone({ consumers }: JetStreamManager, { stream, durable }: ConsumerSpec): Promise<boolean> {
  try {
    await consumers.info(stream, durable);
    return false;
  } catch (error) {
    if (isFault(error, CONSUMER_NOT_FOUND)) return true;
    throw error;
  }
}

/** `undefined` (all) where no floor is known, or where the stream is a new one and its sequences start again. */
function startSequence({ created, state }: StreamInfo, floor: Floor | undefined): number | undefined {
  if (!floor) return undefined;
  const isNewStream = Date.parse(created) > floor.existedAtUnixMs || state.last_seq < floor.streamSequence;
  return isNewStream ? undefined : floor.streamSequence + 1;
}
