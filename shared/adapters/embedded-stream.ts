import type { BusMessage } from '../domain/cloud-event.ts';
import { MESSAGE_ID_HEADER } from '../domain/cloud-event.ts';
import { compileTransform, hasWildcard, subjectMatches } from '../domain/subject-pattern.ts';
import type { StreamSpec } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type { PublishAck, StoredMessage } from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';

/** What nats-server takes where a stream's configuration leaves the window out. */
const DEFAULT_DUPLICATE_WINDOW_MS = 120_000;
/** nats-server's overhead of a stored message: length, sequence, time, checksum. */
const RECORD_OVERHEAD_BYTES = 30;
/** nats-server's `max_payload` by default, headers included, and JetStream's limit of the headers alone. */
const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_HEADER_BYTES = 65_535;

type Entry = { readonly message: StoredMessage; readonly storedAtMs: number; readonly sizeBytes: number };

/** `stored` is absent for a duplicate; `previousSequence` is that of the message before on its subject, 0 for the first. */
export type Appended = PublishAck & { readonly stored?: StoredMessage; readonly previousSequence: number };

/** Who follows a stream: called in the order of sequences, before `append` returns. */
export type StreamFollower = {
  onStored(message: StoredMessage): void;
  onRemoved(message: StoredMessage): void;
};

/**
 * A stream of the topology in memory: its limits remove the oldest messages, as discard policy "old" does.
 * Ages come from the monotonic clock; the wall clock only stamps.
 */
export class EmbeddedStream {
  readonly spec: StreamSpec;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #duplicateWindowMs: number;
  readonly #store: (subject: string) => string | undefined;
  /** By sequence; a Map iterates in the order of insertion, which is that of sequences. */
  readonly #entries = new Map<number, Entry>();
  /** Kept sequences of each stored subject, oldest first; the whole list only where a limit needs it. */
  readonly #subjects = new Map<string, { last: number; count: number; readonly kept: number[] }>();
  readonly #ids = new Map<string, { readonly sequence: number; readonly storedAtMs: number }>();
  readonly #followers = new Set<StreamFollower>();
  #bytes = 0;
  #lastSequence: number;

  constructor(spec: StreamSpec, clock: Clock, maxBytes: number) {
    this.spec = spec;
    this.#clock = clock;
    this.#maxBytes = Math.min(spec.maxBytes, maxBytes);
    this.#duplicateWindowMs =
      spec.duplicateWindowMs ?? Math.min(DEFAULT_DUPLICATE_WINDOW_MS, spec.maxAgeMs ?? Number.POSITIVE_INFINITY);
    this.#store = spec.transform ? compileTransform(spec.transform) : () => undefined;
    this.#lastSequence = spec.firstSequenceFromClock ? clock.unixMs() - 1 : 0;
  }

  /** Whether it stores what is published to `subject`. */
  takes(subject: string): boolean {
    return this.spec.subjects.some((pattern) => subjectMatches(pattern, subject));
  }

  /** Stores a message, or tells the sequence of the one with its id. @throws BusError `too-large` */
  append({ subject, headers, data }: BusMessage): Appended {
    const bytes = bytesOf({ subject, headers, data });
    this.#expire();
    const id = headers[MESSAGE_ID_HEADER];
    const known = id === undefined ? undefined : this.#ids.get(id);
    if (known) return { stream: this.spec.name, sequence: known.sequence, duplicate: true, previousSequence: 0 };
    const storedAtMs = this.#clock.monotonicMs();
    const sequence = ++this.#lastSequence;
    const stored: StoredMessage = {
      stream: this.spec.name,
      streamSequence: sequence,
      storedAtUnixMs: this.#clock.unixMs(),
      subject: this.#store(subject) ?? subject,
      headers,
      data,
    };
    const previousSequence = this.#subjects.get(stored.subject)?.last ?? 0;
    if (id !== undefined) this.#ids.set(id, { sequence, storedAtMs });
    this.#insert({ message: stored, storedAtMs, sizeBytes: RECORD_OVERHEAD_BYTES + stored.subject.length + bytes });
    this.#enforceLimits(stored.subject);
    for (const follower of this.#followers) follower.onStored(stored);
    return { stream: this.spec.name, sequence, duplicate: false, stored, previousSequence };
  }

  get(sequence: number): StoredMessage | undefined {
    this.#expire();
    return this.#entries.get(sequence)?.message;
  }

  /** Sequence of the last message on a stored subject, 0 if there is none. */
  lastSequenceOf(subject: string): number {
    this.#expire();
    return this.#subjects.get(subject)?.last ?? 0;
  }

  /** The last message of each stored subject that matches, by sequence; `before` one of them, if it is named. */
  lastMessages(filter: string, before = this.#lastSequence + 1): StoredMessage[] {
    this.#expire();
    const subjects = hasWildcard(filter)
      ? [...this.#subjects.keys()].filter((subject) => subjectMatches(filter, subject))
      : [filter];
    return subjects
      .flatMap((subject) => this.#lastOf(subject, before) ?? [])
      .sort((a, b) => a.streamSequence - b.streamSequence);
  }

  #lastOf(subject: string, before: number): StoredMessage | undefined {
    const last = this.#subjects.get(subject)?.last ?? 0;
    if (last < before) return this.#entries.get(last)?.message;
    const [first = before] = this.#entries.keys();
    for (let sequence = before - 1; sequence >= first; sequence--) {
      const message = this.#entries.get(sequence)?.message;
      if (message?.subject === subject) return message;
    }
    return undefined;
  }

  /** Everything kept, by sequence. */
  *messages(): IterableIterator<StoredMessage> {
    this.#expire();
    for (const { message } of this.#entries.values()) yield message;
  }

  remove(sequence: number): void {
    const entry = this.#entries.get(sequence);
    if (!entry) return;
    const { message, sizeBytes } = entry;
    this.#entries.delete(sequence);
    this.#bytes -= sizeBytes;
    const index = this.#subjects.get(message.subject);
    if (index) {
      index.count--;
      if (index.kept[0] === sequence) index.kept.shift();
      if (index.count === 0) this.#subjects.delete(message.subject);
    }
    for (const follower of this.#followers) follower.onRemoved(message);
  }

  follow(follower: StreamFollower): void {
    this.#followers.add(follower);
  }

  #insert(entry: Entry): void {
    const { subject, streamSequence } = entry.message;
    this.#entries.set(streamSequence, entry);
    this.#bytes += entry.sizeBytes;
    const index = this.#subjects.get(subject) ?? { last: 0, count: 0, kept: [] };
    index.last = streamSequence;
    index.count++;
    if (this.spec.maxMessagesPerSubject !== undefined) index.kept.push(streamSequence);
    this.#subjects.set(subject, index);
  }

  #enforceLimits(subject: string): void {
    const index = this.#subjects.get(subject);
    const limit = this.spec.maxMessagesPerSubject ?? Number.POSITIVE_INFINITY;
    while (index && index.count > limit) this.remove(index.kept[0] as number);
    while (this.#bytes > this.#maxBytes && this.#entries.size > 1) this.#removeOldest();
  }

  #expire(): void {
    const nowMs = this.#clock.monotonicMs();
    const { maxAgeMs } = this.spec;
    if (maxAgeMs !== undefined) {
      for (const { message, storedAtMs } of this.#entries.values()) {
        if (nowMs - storedAtMs < maxAgeMs) break;
        this.remove(message.streamSequence);
      }
    }
    for (const [id, { storedAtMs }] of this.#ids) {
      if (nowMs - storedAtMs < this.#duplicateWindowMs) break;
      this.#ids.delete(id);
    }
  }

  #removeOldest(): void {
    for (const sequence of this.#entries.keys()) {
      this.remove(sequence);
      return;
    }
  }
}

/** Of headers and data. @throws BusError `too-large` */
function bytesOf({ subject, headers, data }: BusMessage): number {
  let headerBytes = 0;
  for (const name in headers) headerBytes += name.length + (headers[name]?.length ?? 0) + 4;
  const bytes = headerBytes + data.byteLength;
  if (headerBytes <= MAX_HEADER_BYTES && bytes <= MAX_MESSAGE_BYTES) return bytes;
  const limits = `at most ${MAX_MESSAGE_BYTES}, of which headers ${MAX_HEADER_BYTES}`;
  throw new BusError('too-large', `publish to ${subject}: ${bytes} bytes, of which headers ${headerBytes}: ${limits}`);
}
