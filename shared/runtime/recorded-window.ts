import type { ConnectionRef } from '../domain/connection.ts';
import type { EventPlace } from '../domain/event-place.ts';
import { type RecordedMessage, recordedMessage } from '../domain/recorded-message.ts';
import { settingsToldBy } from '../domain/recorded-settings.ts';
import type { RecordedSettings } from '../domain/recording.ts';
import {
  type FixedBound,
  fixBound,
  isAboutConnection,
  type ReplayWindow,
  windowFilter,
} from '../domain/replay-window.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import { decisionSubject, gatewaySubject, observationsFilter } from '../domain/subjects.ts';
import type { StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type { StoredMessage } from '../ports/event-bus.ts';
import type { EventHistory, HistoryQuery } from '../ports/event-history.ts';

type Batches = AsyncIterable<readonly RecordedMessage[]>;

/** The messages of one stream that a window holds. @param endUnixMs server time that relative bounds count from */
export async function* inWindow(
  batches: Batches,
  window: ReplayWindow,
  endUnixMs: number,
  signal: AbortSignal,
): AsyncGenerator<readonly RecordedMessage[]> {
  const position = windowFilter(window, endUnixMs);
  const { connection } = window;
  for await (const batch of batches) {
    if (signal.aborted) return;
    const inside: RecordedMessage[] = [];
    for (const message of batch) {
      const where = position(message);
      if (where === 'after') {
        if (inside.length > 0) yield inside;
        return;
      }
      const isWanted = connection === undefined || isAboutConnection(message, connection);
      if (where === 'inside' && isWanted) inside.push(message);
    }
    if (inside.length > 0) yield inside;
  }
}

/** How often what is followed is asked for more. */
const POLL_MS = 100;

export type HistoryWindow = {
  readonly notes: readonly string[];
  /** The first message that OBSERVATIONS ever had, if the window holds it: nothing came before. */
  readonly streamStart?: EventPlace;
  readonly messages: (stream: StreamName, signal: AbortSignal) => Batches;
  /** How functions were set, by the decisions: those from the start of the window on, else the last ones before. */
  readonly settings: (signal: AbortSignal) => Promise<RecordedSettings>;
};

/** Of a stream: what is older than what it keeps has a sequence, too. */
const FIRST_SEQUENCE = 1;
/** Decisions that are looked at for settings, from the start of a window on and at the end; older functions tell none. */
const MAX_LOOKED_AT = 10_000;
const LAST_LOOKED_AT = 1_000;

/** What the first decision at or after a time tells of the settings of functions; else what the last one before it does. */
export async function settingsDecidedBy(decisions: Batches, sinceUnixMs: number): Promise<RecordedSettings> {
  let told: RecordedSettings = {};
  let count = 0;
  for await (const batch of decisions) {
    for (const message of batch) {
      const settings = settingsToldBy(message);
      told = settings ?? told;
      if (settings !== undefined && message.storedAtUnixMs >= sinceUnixMs) return settings;
    }
    count += batch.length;
    if (count >= MAX_LOOKED_AT) break;
  }
  return told;
}

/** Whether a window with this begin reaches back to a place. */
export function holdsPlace(begin: FixedBound | undefined, place: EventPlace): boolean {
  if (begin === undefined) return true;
  return begin.kind === 'sequence' ? begin.sequence <= place.sequence : begin.unixMs <= place.storedAtUnixMs;
}

/** The server's time of the first message of a window; 0 if it holds none. */
export async function startOfWindow(observations: Batches): Promise<number> {
  for await (const [first] of observations) if (first !== undefined) return first.storedAtUnixMs;
  return 0;
}

/**
 * A window of live streams, by direct get, as it is when it is opened. Followed, OBSERVATIONS go on with what comes: asked
 * for by the sequence after the last one, so there is no gap between the past and the present, no repeat and no other
 * order.
 */
export async function windowOfHistory(
  history: EventHistory,
  window: ReplayWindow,
  { clock, follow }: { readonly clock: Clock; readonly follow: boolean },
): Promise<HistoryWindow> {
  const bounds = await history.bounds('OBSERVATIONS');
  const endUnixMs = bounds?.last.storedAtUnixMs ?? 0;
  const begin = fixBound(window.from, endUnixMs);
  const reach = bounds && reachOf(begin, bounds.first);

  async function* read(stream: StreamName, signal: AbortSignal): AsyncGenerator<readonly RecordedMessage[]> {
    const goesOn = follow && stream === 'OBSERVATIONS';
    const subjects = window.connection === undefined ? {} : { filter: filterOf(stream, window.connection) };
    // Else a replay of a busy stream would run after its end for ever.
    const known = stream === 'OBSERVATIONS' ? bounds : await history.bounds(stream);
    const lastSequence = goesOn ? Number.POSITIVE_INFINITY : (known?.last.sequence ?? 0);
    let next = startOf(begin, stream);
    do {
      for await (const batch of history.read({ stream, from: next, ...subjects }, signal)) {
        const last = batch.at(-1)?.streamSequence ?? 0;
        const wanted =
          last > lastSequence ? batch.filter(({ streamSequence }) => streamSequence <= lastSequence) : batch;
        yield wanted.map(recordedMessage);
        if (last >= lastSequence) return;
        next = { sequence: last + 1 };
      }
      if (goesOn) await clock.sleep(POLL_MS, signal).catch(() => {});
    } while (goesOn && !signal.aborted);
  }

  const messages = (stream: StreamName, signal: AbortSignal) =>
    inWindow(read(stream, signal), window, endUnixMs, signal);

  async function settings(signal: AbortSignal): Promise<RecordedSettings> {
    const startUnixMs = await startOfWindow(messages('OBSERVATIONS', signal));
    const decisionsFrom = (from: HistoryQuery['from']) => recorded(history.read({ stream: 'DECISIONS', from }, signal));
    const told = await settingsDecidedBy(decisionsFrom({ unixMs: startUnixMs }), startUnixMs);
    if (Object.keys(told).length > 0) return told;
    const last = (await history.bounds('DECISIONS'))?.last.sequence ?? 0;
    return settingsDecidedBy(decisionsFrom({ sequence: Math.max(1, last - LAST_LOOKED_AT) }), startUnixMs);
  }

  return {
    notes: reach?.notes ?? [],
    ...(reach?.streamStart && { streamStart: reach.streamStart }),
    messages,
    settings,
  };
}

/** How far back a window goes, against the first message that the stream keeps. */
function reachOf(begin: FixedBound | undefined, first: EventPlace): Pick<HistoryWindow, 'notes' | 'streamStart'> {
  if (!holdsPlace(begin, first)) return { notes: [] };
  if (first.sequence === FIRST_SEQUENCE) return { notes: [], streamStart: first };
  const place = `#${first.sequence} of ${formatRfc3339Ms(first.storedAtUnixMs)}`;
  return { notes: [`what came before ${place} is gone from the stream by retention`] };
}

async function* recorded(batches: AsyncIterable<readonly StoredMessage[]>): AsyncGenerator<readonly RecordedMessage[]> {
  for await (const batch of batches) yield batch.map(recordedMessage);
}

function startOf(begin: FixedBound | undefined, stream: StreamName): { sequence: number } | { unixMs: number } {
  if (begin === undefined) return { sequence: 1 };
  if (begin.kind === 'time') return { unixMs: begin.unixMs };
  return { sequence: stream === 'OBSERVATIONS' ? begin.sequence : 1 };
}

function filterOf(stream: StreamName, ref: ConnectionRef): string {
  if (stream === 'OBSERVATIONS') return observationsFilter(ref);
  return stream === 'GATEWAYS' ? gatewaySubject(ref) : decisionSubject(ref);
}
