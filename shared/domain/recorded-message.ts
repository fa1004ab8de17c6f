import { type BusMessage, type CloudEvent, decodeCloudEvent } from './cloud-event.ts';
import type { StreamName } from './topology.ts';

/**
 * A message of a stream as a replay takes it, from NATS or from a file: already decoded, so that both ways give the same.
 * What cannot be decoded stays as it came, so that the functions can say what is wrong with it.
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

/** Of an event longer than this only its length matters: no function takes it. */
const MAX_EVENT_BYTES = 256 * 1024;

/**
 * Keeps the attributes of a CloudEvent and its data; other headers go, so that no credential that somebody put into one
 * ever ends up in a file.
 */
export function recordedMessage(
  message: BusMessage & Pick<RecordedMessage, 'stream' | 'storedAtUnixMs'> & { readonly streamSequence: number },
): RecordedMessage {
  const { stream, streamSequence: sequence, storedAtUnixMs } = message;
  const decoded = message.data.byteLength > MAX_EVENT_BYTES ? undefined : decodeCloudEvent(message);
  if (decoded !== undefined && 'event' in decoded) return { stream, sequence, storedAtUnixMs, event: decoded.event };
  const { subject, data } = message;
  return { stream, sequence, storedAtUnixMs, raw: { subject, headers: attributesOf(message), data } };
}

function attributesOf({ headers }: BusMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('ce-')));
}
