import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Outbox, type OutboxEntry } from '../../shared/domain/outbox.ts';
import type { Sighting } from '../../shared/domain/sighting.ts';

const sighting = (interfaceId: string, sequence: number, value: Sighting['value'] = 'Connected'): Sighting => ({
  ...{ interfaceId, sequence, value, kind: 'pong', monotonicMs: sequence, observedAtUnixMs: sequence, rttNs: 1 },
});

function drain(outbox: Outbox): OutboxEntry[] {
  const entries: OutboxEntry[] = [];
  for (let entry = outbox.take(); entry !== undefined; entry = outbox.take()) {
    entries.push({ ...entry });
    outbox.stored(entry);
  }
  return entries;
}

const sequences = (entries: readonly OutboxEntry[]) => entries.map((entry) => entry.sighting.sequence);

describe('order', () => {
  test('is that of each interface, and interfaces take turns', () => {
    const outbox = new Outbox();
    for (let i = 1; i <= 3; i++) for (const id of ['a', 'b']) outbox.add(sighting(id, i));
    const entries = drain(outbox);
    expect(entries.map(({ sighting: { interfaceId, sequence } }) => `${interfaceId}${sequence}`)).toEqual([
      ...['a1', 'b1', 'a2', 'b2', 'a3', 'b3'],
    ]);
    expect(outbox.depth).toBe(0);
  });

  test('a failed entry goes again before those behind it, though they were stored', () => {
    const outbox = new Outbox();
    for (let i = 1; i <= 4; i++) outbox.add(sighting('a', i));
    const first = outbox.take() as OutboxEntry; // the first is a change of value, it travels alone
    expect(outbox.take()).toBeUndefined();
    outbox.stored(first);
    const [second, third] = [outbox.take(), outbox.take()] as [OutboxEntry, OutboxEntry];
    outbox.stored(third);
    outbox.failed(second);
    expect(sequences(drain(outbox))).toEqual([2, 4]);
    expect(outbox.depth).toBe(0);
  });

  test('nothing of its interface is on its way beside a change of value', () => {
    const outbox = new Outbox();
    outbox.add(sighting('a', 1));
    outbox.stored(outbox.take() as OutboxEntry);
    outbox.add(sighting('a', 2));
    outbox.add(sighting('a', 3, 'Error'));
    outbox.add(sighting('a', 4, 'Error'));
    const second = outbox.take() as OutboxEntry;
    expect(outbox.take()).toBeUndefined();
    outbox.stored(second);
    const change = outbox.take() as OutboxEntry;
    expect(change.sighting.sequence).toBe(3);
    expect(outbox.take()).toBeUndefined();
    outbox.failed(change);
    expect(sequences(drain(outbox))).toEqual([3, 4]);
  });

  test('whatever fails and however acks come: changes are stored in order, each once, and the newest tells the value', () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ kind: fc.constant('add' as const), flips: fc.boolean(), lane: fc.nat(2) }) },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('take' as const) }) },
      { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('stored', 'failed'), pick: fc.nat() }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400 }), fc.integer({ min: 2, max: 20 }), (steps, capacity) => {
        const outbox = new Outbox(capacity);
        const lanes = [0, 1, 2].map((lane) => ({
          id: `if${lane}`,
          sequence: 0,
          value: 'Connected',
          stored: [] as OutboxEntry[],
        }));
        const onItsWay: OutboxEntry[] = [];
        const store = (entry: OutboxEntry) => {
          lanes.find(({ id }) => id === entry.sighting.interfaceId)?.stored.push({ ...entry });
          outbox.stored(entry);
        };
        let added = 0;
        for (const action of steps) {
          if (action.kind === 'add') {
            const lane = lanes[action.lane] as (typeof lanes)[0];
            if (action.flips) lane.value = lane.value === 'Error' ? 'Connected' : 'Error';
            lane.sequence += 1;
            added += 1;
            outbox.add(sighting(lane.id, lane.sequence, lane.value as Sighting['value']));
          } else if (action.kind === 'take') {
            const entry = outbox.take();
            if (entry !== undefined) onItsWay.push(entry);
          } else if (onItsWay.length > 0) {
            const [entry] = onItsWay.splice(action.pick % onItsWay.length, 1) as [OutboxEntry];
            if (action.kind === 'stored') store(entry);
            else outbox.failed(entry);
          }
        }
        for (const entry of onItsWay) outbox.failed(entry);
        for (let entry = outbox.take(); entry !== undefined; entry = outbox.take()) store(entry);
        expect(outbox.depth).toBe(0);
        let stood = 0;
        for (const { stored, sequence, value } of lanes) {
          const all = sequences(stored);
          expect(new Set(all).size).toBe(all.length);
          const changes = sequences(stored.filter(({ isTransition }) => isTransition));
          expect(changes).toEqual([...changes].sort((a, b) => a - b));
          const newest = stored.reduce<Sighting | undefined>(
            (last, { sighting: s }) => ((last?.sequence ?? 0) > s.sequence ? last : s),
            undefined,
          );
          if (sequence > 0) expect(newest?.value).toBe(value);
          stood += stored.reduce((sum, { coalesced }) => sum + 1 + coalesced, 0);
        }
        expect(stood).toBe(added); // every sighting is stored or stood for
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('a bus that is away', () => {
  test('costs no change of value, and the memory of one lane stays bounded', () => {
    const outbox = new Outbox(1_000);
    let sequence = 0;
    const changes: number[] = [];
    for (let round = 0; round < 200; round++) {
      for (const value of ['Connected', 'Error'] as const) {
        changes.push(sequence + 1);
        for (let i = 0; i < 50; i++) outbox.add(sighting('a', ++sequence, value));
      }
    }
    expect(outbox.depth).toBeLessThanOrEqual(2_000);
    expect(outbox.superseded).toBe(0);
    const entries = drain(outbox);
    expect(sequences(entries.filter(({ isTransition }) => isTransition))).toEqual(changes);
    expect(sequences(entries)).toEqual(sequences(entries).sort((a, b) => a - b));
    expect(entries.at(-1)?.sighting.sequence).toBe(sequence);
    expect(entries.reduce((sum, { coalesced }) => sum + coalesced, 0)).toBe(sequence - entries.length);
  });

  test('keeps the first changes and the last where there are more than any lane holds', () => {
    const outbox = new Outbox(1_000);
    for (let sequence = 1; sequence <= 10_001; sequence++) {
      outbox.add(sighting('a', sequence, sequence % 2 === 0 ? 'Error' : 'Connected'));
    }
    expect(outbox.depth).toBe(2_000);
    const entries = drain(outbox);
    expect(sequences(entries.slice(0, 1_000))).toEqual(Array.from({ length: 1_000 }, (_, index) => index + 1));
    expect(entries.at(-1)).toMatchObject({ sighting: { sequence: 10_001, value: 'Connected' }, coalesced: 8_001 });
    expect(outbox.superseded).toBe(8_001);
  });

  test('never changes an entry that is on its way', () => {
    const outbox = new Outbox(1);
    outbox.add(sighting('a', 1));
    const entry = outbox.take() as OutboxEntry;
    outbox.add(sighting('a', 2));
    outbox.add(sighting('a', 3));
    expect(entry.sighting.sequence).toBe(1);
    outbox.failed(entry);
    expect(drain(outbox).map(({ sighting: { sequence }, coalesced }) => [sequence, coalesced])).toEqual([
      ...[
        [1, 0],
        [3, 1],
      ],
    ]);
  });
});
