import packageJson from '../../package.json' with { type: 'json' };
import { checkRecordingPath, RecordingWriter } from '../adapters/recording-file.ts';
import { systemClock } from '../adapters/system-clock.ts';
import { Anonymizer } from '../domain/anonymize.ts';
import { type Connection, type ConnectionRef, connectionKey } from '../domain/connection.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import {
  RECORDING_FORMAT,
  RECORDING_VERSION,
  type RecordedSettings,
  type RecordingHeader,
} from '../domain/recording.ts';
import { formatBound, type ReplayWindow } from '../domain/replay-window.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import type { EventHistory } from '../ports/event-history.ts';
import { type ExportCounts, exportWindow } from '../runtime/export-window.ts';
import { windowOfHistory } from '../runtime/recorded-window.ts';
import { StartError } from './errors.ts';

export type RecordingParts = {
  readonly source: RecordingHeader['source'];
  readonly history: EventHistory;
  /** Left out: all there is. */
  readonly window?: ReplayWindow;
  readonly connection: (ref: ConnectionRef) => Promise<Connection | undefined>;
  /** As far as they are known; what functions were set to is told by their decisions, too. */
  readonly settings?: RecordedSettings;
  /** Of the parts involved besides node and this package. */
  readonly versions?: Readonly<Record<string, string>>;
  readonly notes?: readonly string[];
  readonly anonymize?: boolean;
  readonly signal?: AbortSignal;
  readonly onBatch?: (batch: readonly RecordedMessage[]) => void;
};

/**
 * Writes what the streams and the API say of a window into one file, for `export` and for the lab.
 *
 * @throws StartError if the file cannot be written; then nothing of it is left behind, nor when `signal` aborts
 */
export async function writeRecording(path: string, parts: RecordingParts): Promise<ExportCounts> {
  const { history, window = {}, connection, notes = [], signal = new AbortController().signal, onBatch } = parts;
  const open = (one: ReplayWindow) => windowOfHistory(history, one, { clock: systemClock, follow: false });
  const asked = await open(window);
  const settings = { ...(await asked.settings(signal)), ...parts.settings };
  const { streamStart } = asked;
  const header = recordingHeader({
    ...{ ...parts, window, settings, notes: [...notes, ...asked.notes] },
    ...(streamStart && { streamStart }),
  });
  const writer = await createWriter(path, header);
  const counts = await exportWindow(window, {
    ...{ open, connection, sink: writer, signal },
    ...(parts.anonymize && { disguise: new Anonymizer() }),
    ...(onBatch && { onBatch }),
  }).catch(async (error: unknown) => {
    await writer.abandon();
    throw error;
  });
  if (signal.aborted) await writer.abandon();
  else await writer.finish();
  return counts;
}

/**
 * For before the work: a recording that has nowhere to go is not worth a run.
 *
 * @throws StartError that names the path and what is in the way
 */
export async function checkOutputFile(path: string): Promise<void> {
  await checkRecordingPath(path).catch((cause: Error) => {
    throw new StartError(`${path}: ${cause.message}`, { cause });
  });
}

/** @throws StartError if the file cannot be made */
export async function createWriter(path: string, header: RecordingHeader): Promise<RecordingWriter> {
  try {
    return await RecordingWriter.create(path, header);
  } catch (cause) {
    throw new StartError(`${path}: cannot be written: ${(cause as Error).message}`, { cause });
  }
}

export function recordingHeader({
  source,
  window = {},
  settings = {},
  versions = {},
  notes = [],
  anonymize = false,
  streamStart,
}: Omit<RecordingParts, 'history' | 'connection'> & Pick<RecordingHeader, 'streamStart'>): RecordingHeader {
  const { from, to, connection } = window;
  return {
    format: RECORDING_FORMAT,
    version: RECORDING_VERSION,
    createdAt: formatRfc3339Ms(systemClock.unixMs()),
    createdBy: `${packageJson.name} ${packageJson.version}`,
    source,
    window: {
      ...(from && { from: formatBound(from, formatRfc3339Ms) }),
      ...(to && { to: formatBound(to, formatRfc3339Ms) }),
      ...(connection && !anonymize && { connection: connectionKey(connection) }),
    },
    settings,
    ...(streamStart && { streamStart }),
    versions: { node: process.versions.node, ...versions },
    anonymized: anonymize,
    notes,
  };
}
