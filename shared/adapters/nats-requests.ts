import type { Msg, MsgHdrs, NatsConnection, Subscription } from 'nats';
import { createInbox, errors } from 'nats';
import type { Clock, Timer } from '../ports/clock.ts';
import type { PublishAck } from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';
import { type ApiFault, busErrorOf, noResponders } from './nats-errors.ts';
import type { LinkToUse } from './nats-link-user.ts';

/** What JetStream answers to a publish: where it is stored, or why not. */
type PublishAnswer = PublishAck | { readonly fault: ApiFault };

type Waiting = {
  readonly subject: string;
  readonly deadlineMs: number;
  resolve(answer: Msg): void;
  reject(error: BusError): void;
};

const SWEEP_MS = 100;

/**
 * Requests, publishes with acknowledgement among them, over one reply subject and one timer for all that are on their
 * way: a client's own request costs some ten times as much. When the link goes down all of them are rejected at once:
 * whether they were stored is unknown, and a repeat with the same message id is safe.
 */
export class NatsRequests {
  readonly #link: LinkToUse;
  readonly #clock: Clock;
  readonly #inboxPrefix: string;
  readonly #waiting = new Map<string, Waiting>();
  #inbox: Subscription | undefined;
  #replyPrefix = '';
  #tokens = 0;
  #sweeper: Timer | undefined;

  constructor(link: LinkToUse, clock: Clock, inboxPrefix: string | undefined) {
    this.#link = link;
    this.#clock = clock;
    this.#inboxPrefix = inboxPrefix ?? '_INBOX';
    link.attach({
      up: (connection) => this.#listen(connection),
      down: (reason) => this.#rejectAll(new BusError('unavailable', reason)),
      refused: (error) => this.#onRefused(error),
    });
  }

  async publish(subject: string, headers: MsgHdrs, data: Uint8Array, timeoutMs: number): Promise<PublishAnswer> {
    return publishAnswerOf(subject, await this.request(subject, { headers, data, timeoutMs }));
  }

  /** Resolves to the answer, whatever it says; rejects with BusError where none comes. */
  request(
    subject: string,
    {
      headers,
      data,
      timeoutMs,
    }: { readonly headers?: MsgHdrs; readonly data?: Uint8Array; readonly timeoutMs: number },
  ): Promise<Msg> {
    return new Promise((resolve, reject) => {
      const { connection } = this.#link;
      if (this.#inbox?.isClosed()) this.#listen(connection); // refused before, maybe not now
      const token = (++this.#tokens).toString(36);
      try {
        connection.publish(subject, data, { reply: `${this.#replyPrefix}${token}`, ...(headers && { headers }) });
      } catch (error) {
        return reject(busErrorOf(`request to ${subject}`, error));
      }
      this.#waiting.set(token, { subject, deadlineMs: this.#clock.monotonicMs() + timeoutMs, resolve, reject });
      this.#sweeper ??= this.#clock.after(SWEEP_MS, this.#sweep);
    });
  }

  #listen(connection: NatsConnection): void {
    this.#replyPrefix = `${createInbox(this.#inboxPrefix)}.`;
    this.#inbox = connection.subscribe(`${this.#replyPrefix}*`, {
      callback: (error, message) => {
        if (error) return this.#rejectAll(new BusError('denied', `answers: ${error.message}`));
        const token = message.subject.slice(this.#replyPrefix.length);
        const waiting = this.#waiting.get(token);
        if (!waiting) return; // too late: timed out already
        this.#waiting.delete(token);
        if (isNoResponders(message)) waiting.reject(noResponders(waiting.subject));
        else waiting.resolve(message);
      },
    });
  }

  readonly #sweep = () => {
    this.#sweeper = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (const [token, { subject, deadlineMs, reject }] of this.#waiting) {
      if (deadlineMs > nowMs) continue;
      this.#waiting.delete(token);
      reject(new BusError('timeout', `request to ${subject}: no answer in time`));
    }
    if (this.#waiting.size > 0) this.#sweeper = this.#clock.after(SWEEP_MS, this.#sweep);
  };

  #onRefused(error: Error): void {
    if (!(error instanceof errors.PermissionViolationError) || error.operation !== 'publish') return;
    for (const [token, { subject, reject }] of this.#waiting) {
      if (subject !== error.subject) continue;
      this.#waiting.delete(token);
      reject(new BusError('denied', `request to ${subject}: ${error.message}`, { cause: error }));
    }
  }

  #rejectAll(error: BusError): void {
    this.#sweeper?.cancel();
    this.#sweeper = undefined;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(error);
  }
}

function isNoResponders({ data, headers }: Msg): boolean {
  return data.length === 0 && headers?.code === 503;
}

function publishAnswerOf(subject: string, message: Msg): PublishAnswer {
  try {
    const answer = message.json<{ stream?: string; seq?: number; duplicate?: boolean; error?: ApiFault }>();
    const { stream = '', seq = 0, duplicate = false, error: fault } = answer;
    return fault ? { fault } : { stream, sequence: seq, duplicate };
  } catch (error) {
    throw busErrorOf(`publish to ${subject}`, error);
  }
}
