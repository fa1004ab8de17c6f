import { PubHeaders } from '@nats-io/jetstream';
import type { Msg, NatsConnection, Subscription } from 'nats';
import { type BusMessage, MESSAGE_ID_HEADER } from '../domain/cloud-event.ts';
import { hasWildcard } from '../domain/subject-pattern.ts';
import type { ConsumerSpec, StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  BusHealth,
  Delivery,
  EventBus,
  LastRead,
  PublishAck,
  Settlement,
  StoredMessage,
} from '../ports/event-bus.ts';
import type { LiveFeed, LiveMessage } from '../ports/live-feed.ts';
import type { Logger } from '../ports/telemetry.ts';
import { NatsConsumerLoop } from './nats-consumer-loop.ts';
import { busErrorOf, busErrorOfFault, isWrongLastSequence, noResponders } from './nats-errors.ts';
import { readLastMessage, readLastMessages } from './nats-last-messages.ts';
import { NatsLink } from './nats-link.ts';
import type { LinkUser } from './nats-link-user.ts';
import { fromHeaders, toHeaders, toStoredMessage } from './nats-message.ts';
import type { NatsOptions } from './nats-options.ts';

const PUBLISH_TIMEOUT_MS = 5_000;

/** The event bus on NATS JetStream. Streams and consumers are made by `setupBus`. */
export class NatsBus implements EventBus, LiveFeed {
  /** The connection, for who shares it: the state store, setup. */
  readonly link: NatsLink;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #inboxPrefix: string | undefined;
  readonly #loops = new Set<NatsConsumerLoop>();

  private constructor(options: NatsOptions, clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
    this.#inboxPrefix = options.inboxPrefix;
    this.link = NatsLink.open(options, clock, log);
  }

  /** Returns at once and connects in the background, however long that takes; `bus.link.whenUp()` waits for it. */
  static open(options: NatsOptions, clock: Clock, log: Logger): NatsBus {
    return new NatsBus(options, clock, log);
  }

  async publish(message: BusMessage, options: { readonly timeoutMs?: number } = {}): Promise<PublishAck> {
    const { subject, headers, data } = message;
    const timeoutMs = options.timeoutMs ?? PUBLISH_TIMEOUT_MS;
    const answer = await this.link.requests.publish(subject, toHeaders(headers), data, timeoutMs);
    if ('fault' in answer) throw busErrorOfFault(`publish to ${subject}`, answer.fault);
    return answer;
  }

  async publishAfter({ subject, headers, data }: BusMessage, last: LastRead): Promise<PublishAck | undefined> {
    const fenced = toHeaders(headers);
    fenced.set(PubHeaders.ExpectedLastSubjectSequenceHdr, String(last.sequence));
    // Without it, the server looks at the one subject that the message will be stored at.
    fenced.set(PubHeaders.ExpectedLastSubjectSequenceSubjectHdr, last.filter);
    const answer = await this.link.requests.publish(subject, fenced, data, PUBLISH_TIMEOUT_MS);
    if (!('fault' in answer)) return answer;
    if (isWrongLastSequence(answer.fault)) return undefined;
    throw busErrorOfFault(`publish to ${subject}`, answer.fault);
  }

  async schedule(
    { subject, headers, data }: BusMessage,
    options: { readonly dueAtUnixMs: number; readonly target: string; readonly keepFirst?: boolean },
  ): Promise<'armed' | 'already-armed'> {
    // A timer is unique by its subject; an id would make the stream drop the next one that the same event arms.
    const { [MESSAGE_ID_HEADER]: _, ...kept } = headers;
    const timerHeaders = toHeaders(kept);
    timerHeaders.set(PubHeaders.Schedule, `@at ${new Date(options.dueAtUnixMs).toISOString()}`);
    timerHeaders.set(PubHeaders.ScheduleTarget, options.target);
    if (options.keepFirst) timerHeaders.set(PubHeaders.ExpectedLastSubjectSequenceHdr, '0');
    const answer = await this.link.requests.publish(subject, timerHeaders, data, PUBLISH_TIMEOUT_MS);
    if (!('fault' in answer)) return 'armed';
    if (options.keepFirst && isWrongLastSequence(answer.fault)) return 'already-armed';
    throw busErrorOfFault(`schedule ${subject}`, answer.fault);
  }

  async lastMessages(stream: StreamName, filter: string, before?: number): Promise<readonly StoredMessage[]> {
    if (before !== undefined && before <= 1) return [];
    if (!hasWildcard(filter)) return readLastMessage(this.link.requests, { stream, subject: filter, before });
    const context = `last messages of ${stream} on ${filter}`;
    try {
      const messages = await readLastMessages(this.link.connection, this.#clock, { stream, filter, before });
      return messages
        .map((message) => toStoredMessage(message, stream))
        .sort((a, b) => a.streamSequence - b.streamSequence);
    } catch (error) {
      throw isNoResponders(error) ? noResponders(context) : busErrorOf(context, error);
    }
  }

  async consume(
    consumer: ConsumerSpec,
    handle: (delivery: Delivery) => Promise<Settlement>,
    signal: AbortSignal,
  ): Promise<void> {
    const loop = new NatsConsumerLoop({
      link: this.link,
      spec: consumer,
      handle,
      clock: this.#clock,
      log: this.#log,
      inboxPrefix: this.#inboxPrefix,
    });
    this.#loops.add(loop);
    await loop.run(signal);
    this.#loops.delete(loop);
  }

  subscribe(filter: string, onMessage: (message: LiveMessage) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    const about = `subscription ${filter}`;
    let subscription: Subscription | undefined;
    const listen = (connection: NatsConnection) => {
      subscription = connection.subscribe(filter, {
        callback: (error, message) => {
          this.link.setProblem(about, error?.message);
          const live = error ? undefined : toLiveMessage(message);
          if (live) onMessage(live);
        },
      });
    };
    const user: LinkUser = { up: listen };
    this.link.attach(user);
    signal.addEventListener(
      'abort',
      () => {
        this.link.detach(user);
        this.link.setProblem(about, undefined);
        subscription?.unsubscribe();
      },
      { once: true },
    );
  }

  health(): BusHealth {
    return this.link.health();
  }

  onHealthChange(listener: (health: BusHealth) => void): () => void {
    return this.link.onHealthChange(listener);
  }

  async close(): Promise<void> {
    for (const loop of this.#loops) loop.abandon();
    await this.link.close();
  }
}

/** `undefined` for what is not a copy that a stream republished. */
function toLiveMessage(message: Msg): LiveMessage | undefined {
  const headers = fromHeaders(message.headers);
  const stream = headers['Nats-Stream'];
  if (stream === undefined) return undefined;
  return {
    subject: message.subject,
    headers,
    data: message.data,
    stream,
    streamSequence: Number(headers['Nats-Sequence']),
    previousSequence: Number(headers['Nats-Last-Sequence']),
    storedAtUnixMs: Date.parse(headers['Nats-Time-Stamp'] ?? ''),
  };
}

function isNoResponders(error: unknown): boolean {
  return (error as { isNoResponders?: () => boolean }).isNoResponders?.() ?? false;
}
