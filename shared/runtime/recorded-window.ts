import type { ConnectionRef } from '../domain/connection.ts';
import { type RecordedMessage, recordedMessage } from '../domain/recorded-message.ts';
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
import type { EventHistory } from '../ports/event-history.ts';

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
  readonly messages: (stream: StreamName, signal: AbortSignal) => Batches;
};

/**
 * A window of live streams, by direct get, as it is when it is opened. Followed, OBSERVATIONS go on with what comes: asked for by the sequence after
 * the last one, so there is no gap between the past and the present, no repeat and no other order.
 */
export async function windowOfHistory(
  history: EventHistory,
  window: ReplayWindow,
  { clock, follow }: { readonly clock: Clock; readonly follow: boolean },
): Promise<HistoryWindow> {
  const bounds = await history.bounds('OBSERVATIONS');
  const endUnixMs = bounds?.last.storedAtUnixMs ?? 0;
  const begin = fixBound(window.from, endUnixMs);
  const isCut = bounds !== undefined && begin !== undefined && isBefore(begin, bounds.first);
  const first = bounds && `#${bounds.first.sequence} of ${formatRfc3339Ms(bounds.first.storedAtUnixMs)}`;
  const notes = isCut ? [`what came before ${first} is gone from the stream by retention`] : [];

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

  return { notes, messages: (stream, signal) => inWindow(read(stream, signal), window, endUnixMs, signal) };
}

function isBefore(begin: FixedBound, first: { readonly sequence: number; readonly storedAtUnixMs: number }): boolean {
  return begin.kind === 'sequence' ? begin.sequence < first.sequence : begin.unixMs < first.storedAtUnixMs;
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
