import { type BusMessage, MESSAGE_ID_HEADER } from './cloud-event.ts';
import { STREAMS } from './topology.ts';

/** An event that a function could not take, kept whole with the reason. */

export const DEAD_LETTER_TYPE = 'wg-keepalive.dead-letter.v1';

export type DeadLetter = {
  readonly function: string;
  /** CamelCase word: Malformed, UnknownType, SchemaViolation, ForeignSubject, Oversized, Poisonous. */
  readonly reason: string;
  /** The validator's path and words, or the error. */
  readonly message: string;
  readonly stream: string;
  readonly streamSequence: number;
  readonly subject: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The original bytes; cut where they are longer than {@link MAX_DEAD_LETTER_BYTES}. */
  readonly dataBase64: string;
  readonly dataBytes: number;
  /** RFC 3339; a label. */
  readonly at: string;
};

export const MAX_DEAD_LETTER_BYTES = 512 * 1024;

export function deadLetterOf(
  message: BusMessage & { readonly stream: string; readonly streamSequence: number },
  fault: { readonly function: string; readonly reason: string; readonly message: string; readonly at: string },
): DeadLetter {
  return {
    ...fault,
    stream: message.stream,
    streamSequence: message.streamSequence,
    subject: message.subject,
    headers: message.headers,
    dataBase64: Buffer.from(message.data.subarray(0, MAX_DEAD_LETTER_BYTES)).toString('base64'),
    dataBytes: message.data.byteLength,
  };
}

/** Says that a letter's event was published again; it stays in the stream and is no longer open. */
export const RETRIED_TYPE = 'wg-keepalive.dead-letter-retried.v1';

export type Retried = {
  /** Of the letter, in DEAD_LETTERS. */
  readonly sequence: number;
  /** Where the event is now. */
  readonly stream: string;
  readonly streamSequence: number;
  readonly at: string;
};

/** What the server says of a message that it hands out no more: its own place in JSON, without the message. */
export type DeliveryAdvisory = {
  readonly type: string;
  readonly stream: string;
  readonly consumer: string;
  readonly stream_seq: number;
  readonly deliveries: number;
  readonly reason?: string;
  readonly timestamp: string;
};

/** What a letter is about, whoever wrote it; `letter` is absent where only the server's advisory is there. */
export type OpenLetter = {
  readonly sequence: number;
  readonly function: string;
  readonly reason: string;
  readonly message: string;
  readonly stream: string;
  readonly streamSequence: number;
  readonly at: string;
  readonly letter?: DeadLetter;
  /** What lies there is no letter: `message` says why, and the place is its own. */
  readonly isUnreadable?: true;
};

/** A message of DEAD_LETTERS; `storedAt` is RFC 3339. */
type StoredLetter = BusMessage & { readonly streamSequence: number; readonly storedAt: string };

type FieldTypes = Readonly<Record<string, 'string' | 'number' | 'object'>>;

const LETTER_FIELDS: FieldTypes = {
  ...{ function: 'string', reason: 'string', message: 'string', stream: 'string', streamSequence: 'number' },
  ...{ subject: 'string', headers: 'object', dataBase64: 'string', dataBytes: 'number', at: 'string' },
};
const ADVISORY_FIELDS: FieldTypes = {
  ...{ type: 'string', stream: 'string', consumer: 'string', stream_seq: 'number' },
  ...{ deliveries: 'number', timestamp: 'string' },
};

/**
 * Reads what DEAD_LETTERS holds. Others may publish there, too, and the server's advisories are about every stream that
 * it has: what is no letter is told as such, what is no business of ours is `undefined`.
 */
export function letterOf(message: StoredLetter): OpenLetter | undefined {
  const { subject, streamSequence: sequence } = message;
  const isAdvisory = subject.startsWith('$JS.');
  const read = fieldsOf(message.data, isAdvisory ? ADVISORY_FIELDS : LETTER_FIELDS);
  if (typeof read === 'string') return unreadable(message, read);
  const isOurs = STREAMS.some(({ name }) => name === read.stream);
  if (isAdvisory) return isOurs ? ofAdvisory(sequence, read as DeliveryAdvisory) : undefined;
  return isOurs
    ? ofLetter(sequence, read as DeadLetter)
    : unreadable(message, `there is no stream ${JSON.stringify(read.stream)}`);
}

/** The letter that a note says was retried; `undefined` where it is no such note. */
export function retriedIn(data: Uint8Array): number | undefined {
  const read = fieldsOf(data, { sequence: 'number' });
  return typeof read === 'string' ? undefined : (read as Retried).sequence;
}

/** @returns an object with these fields, or why it is none */
function fieldsOf(data: Uint8Array, types: FieldTypes): string | { readonly stream?: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(data));
  } catch (error) {
    return `no JSON: ${(error as Error).message}`;
  }
  if (typeof value !== 'object' || value === null) return `want an object, got ${JSON.stringify(value)}`;
  const fields: Readonly<Record<string, unknown>> = { ...value };
  const wrong = Object.keys(types).filter((name) => typeof fields[name] !== types[name] || fields[name] === null);
  return wrong.length === 0 ? fields : `missing or of a wrong type: ${wrong.join(', ')}`;
}

function unreadable({ subject, streamSequence, storedAt: at }: StoredLetter, why: string): OpenLetter {
  return {
    ...{ sequence: streamSequence, function: '-', reason: 'Unreadable', message: `on ${subject}: ${why}` },
    ...{ stream: 'DEAD_LETTERS', streamSequence, at, isUnreadable: true },
  };
}

function ofAdvisory(sequence: number, data: DeliveryAdvisory): OpenLetter {
  const { consumer, stream, stream_seq: streamSequence, deliveries, reason, timestamp: at } = data;
  return {
    ...{ sequence, function: consumer, stream, streamSequence, at },
    reason: data.type.endsWith('.terminated') ? 'Terminated' : 'MaxDeliveries',
    message: reason ?? `handed out ${deliveries} times and never settled`,
  };
}

function ofLetter(sequence: number, letter: DeadLetter): OpenLetter {
  const { function: name, reason, message, stream, streamSequence, at } = letter;
  return { ...{ sequence, function: name, reason, message, stream, streamSequence, at }, letter };
}

const STORED_OBSERVATION = /^observations\.\d+\./;

/** The event of a letter, to be published again: where it was published, as what it was, past the window of duplicates. */
export function retryOf(
  letterSequence: number,
  original: BusMessage & { readonly stream: string; readonly streamSequence: number },
): BusMessage {
  const kept = Object.entries(original.headers).filter(([name]) => !name.startsWith('Nats-'));
  const id = original.headers['ce-id'] ?? `${original.stream}.${original.streamSequence}`;
  return {
    subject: original.subject.replace(STORED_OBSERVATION, 'keepalive.'),
    headers: { ...Object.fromEntries(kept), [MESSAGE_ID_HEADER]: `retry.${letterSequence}.${id}` },
    data: original.stream === 'GATEWAYS' ? withEpoch(original.data, original.streamSequence) : original.data,
  };
}

/** A run's first announcement has its sequence as epoch; published again it must say so, or it would be another run's. */
function withEpoch(data: Uint8Array, epoch: number): Uint8Array {
  try {
    const announcement: unknown = JSON.parse(new TextDecoder().decode(data));
    if (typeof announcement !== 'object' || announcement === null || 'epoch' in announcement) return data;
    return new TextEncoder().encode(JSON.stringify({ ...announcement, epoch }));
  } catch {
    return data;
  }
}
