import { describe, expect, it } from 'vitest';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { DECISION_TYPE } from '../../shared/domain/decision.ts';
import type { ReplayWindow } from '../../shared/domain/replay-window.ts';
import type { StoredMessage } from '../../shared/ports/event-bus.ts';
import type { EventHistory } from '../../shared/ports/event-history.ts';
import { windowOfHistory } from '../../shared/runtime/recorded-window.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** A stream that grows by one message with every one that is read. */
function busyHistory(first: number, count: number): EventHistory & { length: number } {
  const at = (sequence: number): StoredMessage => ({
    ...encodeCloudEvent('observations.0.ns.gw-a.liqo-tunnel', {
      id: `${sequence}`,
      source: '/test',
      type: 'test',
      data: {},
    }),
    ...{ stream: 'OBSERVATIONS', streamSequence: sequence, storedAtUnixMs: sequence * 1_000 },
  });
  const placeOf = (sequence: number) => ({ sequence, storedAtUnixMs: sequence * 1_000 });
  const history = {
    length: count,
    bounds: async () => ({ first: placeOf(first), last: placeOf(first + history.length - 1) }),
    async *read({ from }: Parameters<EventHistory['read']>[0], signal: AbortSignal) {
      let next = Math.max(first, 'sequence' in from ? from.sequence : Math.ceil(from.unixMs / 1_000));
      while (next < first + history.length && !signal.aborted) {
        yield [at(next)];
        next += 1;
        history.length += 1;
      }
    },
  };
  return history;
}

/** Beside the observations: decisions at these seconds, each by a function that was set to as many milliseconds. */
function decisionsAt(seconds: readonly number[]): Pick<EventHistory, 'bounds' | 'read'> {
  const observations = busyHistory(1, 9);
  const at = (second: number): StoredMessage => ({
    ...encodeCloudEvent('decisions.ns.gw-a', {
      ...{ id: `${second}`, source: '/test', type: DECISION_TYPE },
      data: { judgedBy: { updateStatusIntervalMs: second } },
    }),
    ...{ stream: 'DECISIONS', streamSequence: second, storedAtUnixMs: second * 1_000 },
  });
  const all = seconds.map(at);
  const placeOf = (second = 0) => ({ sequence: second, storedAtUnixMs: second * 1_000 });
  return {
    bounds: async (stream) =>
      stream === 'DECISIONS'
        ? { first: placeOf(seconds[0]), last: placeOf(seconds.at(-1)) }
        : observations.bounds(stream),
    async *read(query, signal) {
      if (query.stream !== 'DECISIONS') return yield* observations.read(query, signal);
      const { from } = query;
      const isWanted = ({ streamSequence, storedAtUnixMs }: StoredMessage) =>
        'sequence' in from ? streamSequence >= from.sequence : storedAtUnixMs >= from.unixMs;
      yield all.filter(isWanted);
    },
  };
}

async function sequencesOf(history: EventHistory, window: ReplayWindow, follow = false, stopAfter = 1_000) {
  const clock = new VirtualClock();
  const stop = new AbortController();
  const { notes, messages } = await windowOfHistory(history, window, { clock, follow });
  const sequences: number[] = [];
  for await (const batch of messages('OBSERVATIONS', stop.signal)) {
    sequences.push(...batch.map(({ sequence }) => sequence));
    if (sequences.length >= stopAfter) stop.abort();
  }
  return { sequences, notes };
}

describe('a window of a live stream', () => {
  it('ends where the stream ended when it was opened, however fast it grows', async () => {
    expect((await sequencesOf(busyHistory(1, 5), {})).sequences).toEqual([1, 2, 3, 4, 5]);
    const again = busyHistory(1, 5);
    const opened = await windowOfHistory(again, {}, { clock: new VirtualClock(), follow: false });
    for (let pass = 0; pass < 2; pass++) {
      const read: (readonly { readonly sequence: number }[])[] = [];
      for await (const batch of opened.messages('OBSERVATIONS', new AbortController().signal)) read.push(batch);
      expect(read.flat().map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5]);
    }
  });

  it('goes on when it is followed, until it is told to stop', async () => {
    const { sequences } = await sequencesOf(busyHistory(1, 5), {}, true, 40);
    expect(sequences).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
  });

  it('counts relative times from the last message, and says what retention has taken', async () => {
    const from = { kind: 'relative', beforeEndMs: 2_000 } as const;
    expect(await sequencesOf(busyHistory(10, 6), { from })).toEqual({ sequences: [13, 14, 15], notes: [] });
    const { sequences, notes } = await sequencesOf(busyHistory(10, 3), { from: { kind: 'sequence', sequence: 4 } });
    expect(sequences).toEqual([10, 11, 12]);
    expect(notes).toEqual(['what came before #10 of 1970-01-01T00:00:10.000Z is gone from the stream by retention']);
  });

  it('holds the start of the stream where it reaches back to the very first message', async () => {
    const open = (history: EventHistory, from: ReplayWindow['from']) =>
      windowOfHistory(history, from ? { from } : {}, { clock: new VirtualClock(), follow: false });
    const first = { sequence: 1, storedAtUnixMs: 1_000 };
    for (const from of [undefined, { kind: 'sequence', sequence: 1 }, { kind: 'time', unixMs: 1 }] as const) {
      expect(await open(busyHistory(1, 5), from)).toMatchObject({ streamStart: first, notes: [] });
    }
    const later = [
      { kind: 'sequence', sequence: 2 },
      { kind: 'time', unixMs: 1_500 },
    ] as const;
    for (const from of later) expect((await open(busyHistory(1, 5), from)).streamStart).toBeUndefined();
    const cut = await open(busyHistory(2, 5), undefined);
    expect(cut.streamStart).toBeUndefined();
    expect(cut.notes).toEqual(['what came before #2 of 1970-01-01T00:00:02.000Z is gone from the stream by retention']);
  });

  it.each([
    ['the first decision in it', 4, [5, 7], 5],
    ['the last one before it where none is in it', 4, [1, 2], 2],
  ])('tells how the functions were set by %s', async (_name, from, decided, told) => {
    const { settings } = await windowOfHistory(
      { ...busyHistory(1, 9), ...decisionsAt(decided) },
      { from: { kind: 'sequence', sequence: from } },
      { clock: new VirtualClock(), follow: false },
    );
    expect(await settings(new AbortController().signal)).toEqual({ pingUpdateStatusIntervalMs: told });
  });

  it('is empty where the stream is', async () => {
    const empty: EventHistory = { bounds: async () => undefined, read: async function* () {} };
    expect(await sequencesOf(empty, {})).toEqual({ sequences: [], notes: [] });
  });
});
