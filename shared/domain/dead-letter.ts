import { type BusMessage, MESSAGE_ID_HEADER } from './cloud-event.ts';

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
};

export function letterOf(sequence: number, data: DeadLetter | DeliveryAdvisory): OpenLetter {
  if ('stream_seq' in data) {
    const { consumer, stream, stream_seq: streamSequence, deliveries, reason, timestamp: at } = data;
    const isTerminated = data.type.endsWith('.terminated');
    return {
      ...{ sequence, function: consumer, stream, streamSequence, at },
      reason: isTerminated ? 'Terminated' : 'MaxDeliveries',
      message: reason ?? `handed out ${deliveries} times and never settled`,
    };
  }
  const { function: name, reason, message, stream, streamSequence, at } = data;
  return { ...{ sequence, function: name, reason, message, stream, streamSequence, at }, letter: data };
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
