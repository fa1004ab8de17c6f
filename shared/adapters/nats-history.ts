import type { DirectStreamAPI, StoredMsg } from '@nats-io/jetstream';
import { jetstreamManager } from '@nats-io/jetstream';
import type { EventPlace } from '../domain/event-place.ts';
import type { StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import { BusError, type StoredMessage } from '../ports/event-bus.ts';
import type { EventHistory, HistoryQuery } from '../ports/event-history.ts';
import { API_TIMEOUT_MS } from './nats-config.ts';
import { busErrorOf } from './nats-errors.ts';
import type { NatsLink } from './nats-link.ts';
import { toStoredMessage } from './nats-message.ts';

/** Messages a request: some hundred kilobytes, well under what a server holds back for a slow reader. */
const BATCH = 1_000;
/** A batch that brings nothing for this long is asked for again. */
const BATCH_TIMEOUT_MS = 10_000;
const MAX_ATTEMPTS = 5;

/** The streams of NATS JetStream by direct get: makes no consumer, needs no right but to ask. */
export class NatsHistory implements EventHistory {
  readonly #link: NatsLink;
  readonly #clock: Clock;

  constructor(link: NatsLink, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
  }

  async bounds(stream: StreamName): Promise<{ first: EventPlace; last: EventPlace } | undefined> {
    try {
      const manager = await this.#manager();
      const { state } = await manager.streams.info(stream);
      if (state.messages === 0) return undefined;
      return {
        first: { sequence: state.first_seq, storedAtUnixMs: Date.parse(state.first_ts) },
        last: { sequence: state.last_seq, storedAtUnixMs: Date.parse(state.last_ts) },
      };
    } catch (error) {
      throw busErrorOf(`first and last message of ${stream}`, error);
    }
  }

  async *read(query: HistoryQuery, signal: AbortSignal): AsyncGenerator<readonly StoredMessage[]> {
    const { stream } = query;
    let { from } = query;
    while (!signal.aborted) {
      const messages = await this.#retrying({ ...query, from }, signal);
      const last = messages.at(-1);
      if (last === undefined) return;
      yield messages.map((message) => toStoredMessage(message, stream));
      from = { sequence: last.seq + 1 };
    }
  }

  /** A lost connection or a change of leaders is no reason to give a long read up. */
  async #retrying(query: HistoryQuery, signal: AbortSignal): Promise<readonly StoredMsg[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#link.whenUp(signal);
        const { direct } = await this.#manager();
        return await this.#batch(direct, query);
      } catch (error) {
        const context = `reading ${query.stream} from ${JSON.stringify(query.from)}`;
        const fault = error instanceof BusError ? error : busErrorOf(context, error);
        if (signal.aborted) return [];
        if (attempt === MAX_ATTEMPTS || fault.code === 'denied' || fault.code === 'not-found') throw fault;
        await this.#clock.sleep(200 * attempt, signal).catch(() => {});
      }
    }
  }

  /** All or nothing: a batch that breaks off is asked for anew. */
  async #batch(direct: DirectStreamAPI, { stream, filter, from }: HistoryQuery): Promise<readonly StoredMsg[]> {
    const { promise, resolve, reject } = Promise.withResolvers<StoredMsg[]>();
    const messages: StoredMsg[] = [];
    const request = await direct.getBatch(stream, {
      ...('sequence' in from ? { seq: from.sequence } : { start_time: new Date(from.unixMs) }),
      ...(filter === undefined ? {} : { next_by_subj: filter }),
      batch: BATCH,
      callback: (done: { readonly err?: Error } | null, message: StoredMsg) => {
        if (!done) messages.push(message);
        else if (done.err && !isNothingThere(done.err)) reject(done.err);
        else resolve(messages);
      },
    });
    const timer = this.#clock.after(BATCH_TIMEOUT_MS, () => {
      reject(new BusError('timeout', `${stream}: a batch did not come within ${BATCH_TIMEOUT_MS} ms`));
      request.stop();
    });
    return promise.finally(() => timer.cancel());
  }

  async #manager() {
    return jetstreamManager(this.#link.connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
  }
}

function isNothingThere(error: Error): boolean {
  return (error as { readonly code?: unknown }).code === 404;
}
