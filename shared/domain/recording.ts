import type { CloudEvent } from './cloud-event.ts';
import type { Connection } from './connection.ts';
import type { EventPlace } from './event-place.ts';
import type { RecordedMessage } from './recorded-message.ts';
import { STREAMS, type StreamName } from './topology.ts';

/** The lines of a recording: a window of the streams in one file. The page docs/recording-format.md describes it. */

export const RECORDING_FORMAT = 'wg-keepalive-recording';
export const RECORDING_VERSION = 1;

/** What the flags of gateways and functions were, as far as it is known. */
export type RecordedSettings = {
  readonly pingIntervalMs?: number;
  readonly pingLossThreshold?: number;
  readonly pingUpdateStatusIntervalMs?: number;
  readonly gatewaySilentAfterMs?: number;
};

export type RecordingHeader = {
  readonly format: typeof RECORDING_FORMAT;
  readonly version: typeof RECORDING_VERSION;
  /** RFC 3339; a label. */
  readonly createdAt: string;
  readonly createdBy: string;
  readonly source: 'nats' | 'lab' | 'capture';
  /** As it was asked for. */
  readonly window: { readonly from?: string; readonly to?: string; readonly connection?: string };
  readonly settings: RecordedSettings;
  /** The first message that OBSERVATIONS ever had, if the window holds it: nothing came before. */
  readonly streamStart?: EventPlace;
  /** Of the parts involved: node, nats-server, kube-apiserver. */
  readonly versions: Readonly<Record<string, string>>;
  readonly anonymized: boolean;
  /** What is not in the file though the window asks for it. */
  readonly notes: readonly string[];
};

/** `lines`: all before this one; `sha256`: of their bytes, line ends included. */
export type RecordingEnd = { readonly end: { readonly lines: number; readonly sha256: string } };

export type RecordingLine =
  | { readonly kind: 'message'; readonly message: RecordedMessage }
  | { readonly kind: 'connection'; readonly connection: Connection }
  | { readonly kind: 'end'; readonly end: RecordingEnd['end'] };

type Raw = {
  readonly subject: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dataBase64: string;
};

/** A message's line begins with this, so that a reader can pass over other streams without parsing them. */
export function messageLineStart(stream: StreamName): string {
  return `{"stream":"${stream}",`;
}

export function formatMessage({ stream, sequence, storedAtUnixMs, event, raw }: RecordedMessage): string {
  if (event !== undefined) return JSON.stringify({ stream, sequence, storedAtUnixMs, event });
  const { subject, headers, data } = raw;
  const kept: Raw = { subject, headers, dataBase64: Buffer.from(data).toString('base64') };
  return JSON.stringify({ stream, sequence, storedAtUnixMs, raw: kept });
}

/** Only what the API server, its status and our own labels say: annotations may hold anything, secrets too. */
export function formatConnection({ metadata, spec, status }: Connection): string {
  const { namespace, name, uid, resourceVersion, labels, ownerReferences, creationTimestamp, managedFields } = metadata;
  const kept = { namespace, name, uid, resourceVersion, labels, ownerReferences, creationTimestamp, managedFields };
  return JSON.stringify({ connection: { metadata: kept, spec, status } });
}

/** The error ends the sentence "line 1: …". */
export function parseHeader(text: string): RecordingHeader | { readonly error: string } {
  const json = parseJson(text);
  if (json === undefined) return { error: 'is not JSON' };
  const { format, version } = json;
  if (format !== RECORDING_FORMAT) return { error: `format is ${shown(format)}, want "${RECORDING_FORMAT}"` };
  if (typeof version === 'number' && version > RECORDING_VERSION) {
    return { error: `format version ${version} is newer than ${RECORDING_VERSION}: read it with a newer wg-keepalive` };
  }
  if (version !== RECORDING_VERSION) return { error: `format version is ${shown(version)}, want ${RECORDING_VERSION}` };
  const header = json as RecordingHeader & Record<string, unknown>;
  const wrong =
    typeof header.createdAt !== 'string' || typeof header.createdBy !== 'string'
      ? 'createdAt and createdBy must be texts'
      : !isObject(header.window) || !isObject(header.settings) || !isObject(header.versions)
        ? 'window, settings and versions must be objects'
        : !Array.isArray(header.notes) || typeof header.anonymized !== 'boolean'
          ? 'notes must be a list and anonymized a boolean'
          : header.streamStart !== undefined && !isPlace(header.streamStart)
            ? 'streamStart must have sequence and storedAtUnixMs'
            : undefined;
  return wrong === undefined ? header : { error: wrong };
}

function isPlace(value: unknown): value is EventPlace {
  return isObject(value) && typeof value.sequence === 'number' && typeof value.storedAtUnixMs === 'number';
}

/** A line after the first; the error ends the sentence "line N: …". */
export function parseLine(text: string): RecordingLine | { readonly error: string } {
  const json = parseJson(text);
  if (json === undefined) return { error: 'is not a JSON object' };
  if (json.stream !== undefined) return parseMessage(json);
  if (isObject(json.connection)) return parseConnection(json.connection);
  if (isObject(json.end)) {
    const { lines, sha256 } = json.end;
    return typeof lines === 'number' && typeof sha256 === 'string'
      ? { kind: 'end', end: { lines, sha256 } }
      : { error: 'end must have lines and sha256' };
  }
  return { error: 'is neither a message, nor a connection, nor the end' };
}

const STREAM_NAMES = new Set<unknown>(STREAMS.map(({ name }) => name));

function parseMessage(json: Record<string, unknown>): RecordingLine | { readonly error: string } {
  const { sequence, storedAtUnixMs, event, raw } = json;
  const stream = json.stream as StreamName;
  if (!STREAM_NAMES.has(stream))
    return { error: `stream is ${shown(stream)}, want one of ${[...STREAM_NAMES].join(', ')}` };
  if (typeof sequence !== 'number' || !Number.isSafeInteger(sequence) || sequence < 1) {
    return { error: `sequence is ${shown(sequence)}, want an integer of at least 1` };
  }
  if (typeof storedAtUnixMs !== 'number' || !(storedAtUnixMs >= 0 && storedAtUnixMs < MAX_UNIX_MS)) {
    return { error: `storedAtUnixMs is ${shown(storedAtUnixMs)}, want Unix milliseconds` };
  }
  if (isObject(event)) {
    const { id, source, type, time } = event;
    const areTexts = typeof id === 'string' && typeof source === 'string' && typeof type === 'string';
    if (!areTexts || (time !== undefined && typeof time !== 'string') || !('data' in event)) {
      return { error: 'event must have id, source and type as texts, and data' };
    }
    return { kind: 'message', message: { stream, sequence, storedAtUnixMs, event: event as CloudEvent } };
  }
  if (
    !isObject(raw) ||
    typeof raw.subject !== 'string' ||
    typeof raw.dataBase64 !== 'string' ||
    !isObject(raw.headers)
  ) {
    return { error: 'a message must have an event, or raw with subject, headers and dataBase64' };
  }
  const headers = raw.headers as Record<string, string>;
  if (!Object.values(headers).every((value) => typeof value === 'string'))
    return { error: 'raw.headers must be texts' };
  const data = new Uint8Array(Buffer.from(raw.dataBase64, 'base64'));
  const message: RecordedMessage = { stream, sequence, storedAtUnixMs, raw: { subject: raw.subject, headers, data } };
  return { kind: 'message', message };
}

/** End of the year 9999. */
const MAX_UNIX_MS = 253_402_300_800_000;

function parseConnection(json: Record<string, unknown>): RecordingLine | { readonly error: string } {
  const { metadata, spec } = json;
  if (!isObject(metadata) || typeof metadata.namespace !== 'string' || typeof metadata.name !== 'string') {
    return { error: 'connection.metadata must have namespace and name' };
  }
  if (!isObject(spec)) return { error: 'connection.spec must be an object' };
  return { kind: 'connection', connection: json as unknown as Connection };
}

function parseJson(text: string): Record<string, unknown> | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
