import { type BusMessage, type CloudEvent, decodeCloudEvent, MAX_EVENT_BYTES } from './cloud-event.ts';
import { endsWithNames } from './subject-token.ts';
import type { StreamName } from './topology.ts';

/**
 * A message of a stream as a replay takes it, from NATS or from a file: already decoded, so that both ways give the same.
 * What cannot be decoded, or is not about what its subject says, stays as it came, so that the functions can say what is
 * wrong with it.
 */
export type RecordedMessage = {
  readonly stream: StreamName;
  readonly sequence: number;
  /** The server's time of the message: the only wall clock of a replay. */
  readonly storedAtUnixMs: number;
} & (
  | { readonly event: CloudEvent; readonly raw?: undefined }
  | { readonly raw: BusMessage; readonly event?: undefined }
);

/**
 * Keeps the attributes of a CloudEvent and its data; other headers go, so that no credential that somebody put into one
 * ever ends up in a file.
 */
export function recordedMessage(
  message: BusMessage & Pick<RecordedMessage, 'stream' | 'storedAtUnixMs'> & { readonly streamSequence: number },
): RecordedMessage {
  const { stream, streamSequence: sequence, storedAtUnixMs, subject, data } = message;
  const decoded = data.byteLength > MAX_EVENT_BYTES ? undefined : decodeCloudEvent(message);
  if (decoded !== undefined && 'event' in decoded && isAbout(decoded.event.data, message)) {
    return { stream, sequence, storedAtUnixMs, event: decoded.event };
  }
  return { stream, sequence, storedAtUnixMs, raw: { subject, headers: attributesOf(message), data } };
}

function isAbout(data: unknown, { stream, subject }: Pick<RecordedMessage, 'stream'> & BusMessage): boolean {
  if (stream !== 'OBSERVATIONS') return true;
  const { namespace, connection, interfaceId } = (data ?? {}) as Record<string, unknown>;
  return endsWithNames(subject, [namespace, connection, interfaceId].map(String));
}

function attributesOf({ headers }: BusMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('ce-')));
}
