import type { BusMessage } from '../domain/cloud-event.ts';
import { MESSAGE_ID_HEADER } from '../domain/cloud-event.ts';
import { compileTransform, subjectMatches } from '../domain/subject-pattern.ts';
import type { ConsumerSpec, StreamName, StreamSpec } from '../domain/topology.ts';
import { STREAMS } from '../domain/topology.ts';
import type { ConsumerStatistics } from '../ports/bus-statistics.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import type { LastRead, PublishAck, StoredMessage } from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';
import type { LiveMessage } from '../ports/live-feed.ts';
import type { ConsumerAdvisory } from './embedded-consumer.ts';
import { EmbeddedConsumer } from './embedded-consumer.ts';
import { EmbeddedStream } from './embedded-stream.ts';

export type EmbeddedBrokerOptions = {
  /** The server's clock: it stamps messages and measures ages and ack waits. */
  readonly clock: Clock;
  /** @defaultValue the streams of the topology */
  readonly streams?: readonly StreamSpec[];
  /** Bound of each stream's memory, under the topology's own. @defaultValue 64 MiB */
  readonly maxBytesPerStream?: number;
};

/** A timer that falls due while the server is away is late. */
const OUTAGE_LOOK_MS = 250;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
const encoder = new TextEncoder();

type LiveListener = { readonly filter: string; readonly onMessage: (message: LiveMessage) => void };

/**
 * The server's side of the embedded bus: streams and consumers of the topology in this process, on one clock,
 * without randomness or I/O of its own. Clients are made with `new EmbeddedBus(broker, clock)`.
 */
export class EmbeddedBroker {
  readonly #clock: Clock;
  readonly #streams: ReadonlyMap<string, EmbeddedStream>;
  readonly #republish: ReadonlyMap<string, (subject: string) => string | undefined>;
  readonly #consumers = new Map<string, EmbeddedConsumer>();
  readonly #schedules = new Map<string, Timer>();
  readonly #listeners = new Set<LiveListener>();
  readonly #outageListeners = new Set<() => void>();
  #advisories = 0;
  #outage: string | undefined;

  constructor({ clock, streams = STREAMS, maxBytesPerStream = DEFAULT_MAX_BYTES }: EmbeddedBrokerOptions) {
    this.#clock = clock;
    this.#streams = new Map(streams.map((spec) => [spec.name, new EmbeddedStream(spec, clock, maxBytesPerStream)]));
    this.#republish = new Map(
      streams.flatMap(({ name, republish }) => (republish ? [[name, compileTransform(republish)]] : [])),
    );
  }

  /** @throws BusError `unavailable` if no stream takes the subject. */
  publish(message: BusMessage): PublishAck {
    const stream = this.#streamOf(message.subject);
    const { stored, previousSequence, ...ack } = stream.append(message);
    if (stored) this.#tell(stored, previousSequence);
    return ack;
  }

  /**
   * Looks at the sequence before the id, as a server does that has no cluster.
   *
   * @throws BusError `unavailable` if no stream takes the subject.
   */
  publishAfter(message: BusMessage, { filter, sequence }: LastRead): PublishAck | undefined {
    const last = this.#streamOf(message.subject).lastMessages(filter).at(-1);
    return (last?.streamSequence ?? 0) === sequence ? this.publish(message) : undefined;
  }

  /** @throws BusError `denied` if the target is not a subject of the same stream. */
  schedule(
    { subject, headers, data }: BusMessage,
    { dueAtUnixMs, target, keepFirst }: { dueAtUnixMs: number; target: string; keepFirst?: boolean },
  ): 'armed' | 'already-armed' {
    const stream = this.#streamOf(subject);
    if (!stream.spec.schedules || !stream.takes(target)) {
      throw new BusError('denied', `stream ${stream.spec.name} does not schedule from ${subject} to ${target}`);
    }
    if (keepFirst && stream.lastSequenceOf(subject) > 0) return 'already-armed';
    const { [MESSAGE_ID_HEADER]: _, ...kept } = headers;
    const at = `@at ${new Date(dueAtUnixMs).toISOString()}`;
    const timerHeaders = { ...kept, 'Nats-Schedule': at, 'Nats-Schedule-Target': target };
    const { sequence } = stream.append({ subject, headers: timerHeaders, data });
    this.#schedules.get(subject)?.cancel();
    const fire = () => {
      if (stream.lastSequenceOf(subject) !== sequence) return;
      if (this.#outage !== undefined) return arm(OUTAGE_LOOK_MS);
      const earlyMs = dueAtUnixMs - this.#clock.unixMs();
      if (earlyMs > 0) return arm(earlyMs);
      this.#schedules.delete(subject);
      stream.remove(sequence);
      this.publish({
        subject: target,
        headers: { ...kept, 'Nats-Scheduler': subject, 'Nats-Schedule-Next': 'purge' },
        data,
      });
    };
    const arm = (delayMs: number) => {
      this.#schedules.set(subject, this.#clock.after(delayMs, fire));
    };
    arm(Math.max(0, dueAtUnixMs - this.#clock.unixMs()));
    return 'armed';
  }

  /** @throws BusError `not-found` if there is no such stream. */
  lastMessages(stream: StreamName, filter: string, before?: number): readonly StoredMessage[] {
    return this.#stream(stream).lastMessages(filter, before);
  }

  /** Everything that the stream keeps, by sequence. @throws BusError `not-found` if there is no such stream. */
  messages(stream: StreamName): IterableIterator<StoredMessage> {
    return this.#stream(stream).messages();
  }

  /** The durable consumer, made from its first message on where it does not exist. */
  consumer(spec: ConsumerSpec): EmbeddedConsumer {
    const key = `${spec.stream}/${spec.durable}`;
    const existing = this.#consumers.get(key);
    if (existing) return existing;
    const advise = (advisory: ConsumerAdvisory) => this.#advise(spec, advisory);
    const consumer = new EmbeddedConsumer(spec, this.#stream(spec.stream), this.#clock, advise);
    consumer.setInterrupted(this.#outage !== undefined);
    this.#consumers.set(key, consumer);
    return consumer;
  }

  /** Why no client reaches it, `undefined` while they do. */
  get outage(): string | undefined {
    return this.#outage;
  }

  /** The server goes away, `undefined`: it comes back, with all that it kept. */
  setOutage(reason: string | undefined): void {
    this.#outage = reason;
    for (const consumer of this.#consumers.values()) consumer.setInterrupted(reason !== undefined);
    for (const listener of this.#outageListeners) listener();
  }

  /** @returns what ends it */
  onOutage(listener: () => void): () => void {
    this.#outageListeners.add(listener);
    return () => this.#outageListeners.delete(listener);
  }

  /** Of the consumers that somebody has asked for. */
  statistics(): readonly ConsumerStatistics[] {
    return [...this.#consumers.values()].map((consumer) => consumer.statistics());
  }

  listen(filter: string, onMessage: (message: LiveMessage) => void): () => void {
    const listener = { filter, onMessage };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(stored: StoredMessage, previousSequence: number): void {
    if (this.#listeners.size === 0) return;
    const subject = this.#republish.get(stored.stream)?.(stored.subject);
    if (subject === undefined) return;
    const { stream, streamSequence, storedAtUnixMs, data } = stored;
    const headers = {
      ...stored.headers,
      'Nats-Stream': stream,
      'Nats-Subject': stored.subject,
      'Nats-Sequence': String(streamSequence),
      'Nats-Time-Stamp': new Date(storedAtUnixMs).toISOString(),
      'Nats-Last-Sequence': String(previousSequence),
    };
    const copy: LiveMessage = { subject, headers, data, stream, streamSequence, previousSequence, storedAtUnixMs };
    for (const listener of this.#listeners) {
      if (!subjectMatches(listener.filter, subject)) continue;
      queueMicrotask(() => {
        if (this.#listeners.has(listener)) listener.onMessage(copy);
      });
    }
  }

  #advise({ stream, durable }: ConsumerSpec, advisory: ConsumerAdvisory): void {
    const { kind, streamSequence, deliverySequence, deliveryCount, reason } = advisory;
    const isTerminated = kind === 'terminated';
    const data = {
      type: `io.nats.jetstream.advisory.v1.${isTerminated ? 'terminated' : 'max_deliver'}`,
      id: `embedded-${++this.#advisories}`,
      timestamp: new Date(this.#clock.unixMs()).toISOString(),
      stream,
      consumer: durable,
      ...(isTerminated && { consumer_seq: deliverySequence }),
      stream_seq: streamSequence,
      deliveries: deliveryCount,
      ...(reason && { reason }),
    };
    const name = isTerminated ? 'MSG_TERMINATED' : 'MAX_DELIVERIES';
    const subject = `$JS.EVENT.ADVISORY.CONSUMER.${name}.${stream}.${durable}`;
    const keeper = [...this.#streams.values()].find((candidate) => candidate.takes(subject));
    keeper?.append({ subject, headers: {}, data: encoder.encode(JSON.stringify(data)) });
  }

  #stream(name: string): EmbeddedStream {
    const stream = this.#streams.get(name);
    if (!stream) throw new BusError('not-found', `there is no stream ${name}`);
    return stream;
  }

  #streamOf(subject: string): EmbeddedStream {
    for (const stream of this.#streams.values()) if (stream.takes(subject)) return stream;
    throw new BusError('unavailable', `no stream takes ${subject}`);
  }
}
