import type { BusMessage } from './cloud-event.ts';

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
