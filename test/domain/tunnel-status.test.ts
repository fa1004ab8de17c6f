import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Connection, ConnectionValue, TunnelEntry } from '../../shared/domain/connection.ts';
import type { Observation, TunnelEvent } from '../../shared/domain/observation.ts';
import { initialEntry, judgeEvent, judgeWrite, type TunnelState } from '../../shared/domain/tunnel-status.ts';

const SETTINGS = { updateStatusIntervalMs: 10_000 };
const ABOUT = { namespace: 'n', connection: 'gw-a', interfaceId: 'liqo-tunnel' };
const T0 = '2026-01-01T00:00:00.000Z';

const kinds = fc.constantFrom('pong' as const, 'miss' as const, 'down' as const, 'unmonitored' as const);
const values = fc.constantFrom<ConnectionValue>('Connected', 'Connecting', 'Error');
const epochs = fc.integer({ min: 1, max: 3 });

const observations: fc.Arbitrary<Observation> = fc
  .record({ kind: kinds, value: values, gatewayEpoch: epochs, sequence: fc.integer({ min: 1, max: 12 }) })
  .chain(({ kind, ...rest }) =>
    fc.record({ rttNs: fc.integer({ min: 1, max: 60_000_000_000 }), monotonicMs: fc.nat(40_000) }).map((more) => ({
      ...{ ...ABOUT, ...rest, kind, monotonicMs: more.monotonicMs, observedAt: T0 },
      ...(kind === 'pong' && { rttNs: more.rttNs }),
    })),
  );

const events: fc.Arbitrary<TunnelEvent> = fc.oneof(
  { weight: 6, arbitrary: observations },
  epochs.map((gatewayEpoch) => ({ ...ABOUT, kind: 'silent' as const, gatewayEpoch, observedAt: T0 })),
  epochs.map((gatewayEpoch) => ({ ...ABOUT, kind: 'unlisted' as const, gatewayEpoch, observedAt: T0 })),
  fc
    .record({ gatewayEpoch: epochs, connectionUid: fc.constantFrom('uid-1', 'uid-2') })
    .map((listed) => ({ ...ABOUT, ...listed, kind: 'listed' as const, observedAt: T0 })),
);

type Write = {
  readonly event: Observation | (TunnelEvent & { kind: 'silent' });
  readonly before: TunnelEntry;
  readonly entry: TunnelEntry;
};

/** Runs events as tunnel-status does, against an API that refuses where `refuses` says so, or loses its answer. */
function run(told: readonly TunnelEvent[], fault: (index: number) => 'refused' | 'lost' | undefined = () => undefined) {
  let state: TunnelState | undefined;
  let entry = initialEntry(ABOUT.interfaceId, T0);
  const writes: Write[] = [];
  let superseded = 0;
  for (const [index, event] of told.entries()) {
    const judgement = judgeEvent(state, event, SETTINGS);
    if (judgement.kind !== 'candidate') {
      state = judgement.state;
      continue;
    }
    if (fault(index) === 'refused') {
      state = judgement.state;
      continue;
    }
    const verdict = judgeWrite(judgement, connectionWith(entry, judgement.state.connectionUid));
    if (verdict.kind === 'write') {
      writes.push({ event: judgement.event, before: entry, entry: verdict.entry });
      entry = verdict.entry;
    }
    const isLost = verdict.kind === 'write' && fault(index) === 'lost';
    state = isLost ? judgement.state : verdict.state;
    if (!isLost) superseded += verdict.superseded;
  }
  return { state, entry, writes, superseded };
}

function connectionWith(entry: TunnelEntry, uid: string): Connection {
  return {
    metadata: { namespace: ABOUT.namespace, name: ABOUT.connection, uid, resourceVersion: '1' },
    spec: {} as Connection['spec'],
    status: { tunnels: [entry] },
  };
}

const LISTED: TunnelEvent = { ...ABOUT, kind: 'listed', gatewayEpoch: 1, connectionUid: 'uid-1', observedAt: T0 };

function pong(sequence: number, atMs: number, more: Partial<Observation> = {}): Observation {
  const what = { kind: 'pong', value: 'Connected', rttNs: 1_000_000 } as const;
  return { ...ABOUT, ...what, gatewayEpoch: 1, sequence, monotonicMs: atMs, observedAt: T0, ...more };
}

function down(sequence: number, atMs: number): Observation {
  const { rttNs: _, ...rest } = pong(sequence, atMs);
  return { ...rest, kind: 'down', value: 'Error', reason: 'NoPong' };
}

describe('judging the events of a tunnel', () => {
  it('never lets an older observation be written after a newer one, whatever comes in whatever order', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 40 }), (told) => {
        const written = run([LISTED, ...told]).writes.flatMap(({ event }) => (event.kind === 'silent' ? [] : [event]));
        for (const [index, { gatewayEpoch, sequence }] of written.entries()) {
          const previous = written[index - 1];
          if (previous === undefined) continue;
          const isNewer =
            gatewayEpoch > previous.gatewayEpoch ||
            (gatewayEpoch === previous.gatewayEpoch && sequence > previous.sequence);
          expect(isNewer).toBe(true);
        }
      }),
    );
  });

  it('gives the same writes when events are repeated', () => {
    const repeated = fc.array(fc.tuple(observations, fc.integer({ min: 1, max: 3 })), { maxLength: 30 });
    fc.assert(
      fc.property(repeated, (told) => {
        const once = run([LISTED, ...told.map(([event]) => event)]);
        const often = run([LISTED, ...told.flatMap(([event, times]) => Array.from({ length: times }, () => event))]);
        expect(often.writes).toEqual(once.writes);
      }),
    );
  });

  it('writes nothing of a tunnel that is not listed', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 20 }), (told) => {
        const unlisted = told.filter(({ kind }) => kind !== 'listed');
        expect(run(unlisted).writes).toEqual([]);
        expect(run([LISTED, { ...LISTED, kind: 'unlisted' } as TunnelEvent, ...unlisted]).writes).toEqual([]);
      }),
    );
  });

  it('writes each change of value, and an unchanged one at most once an update interval of the gateway', () => {
    const steps = fc.array(fc.record({ afterMs: fc.nat(3_000), isUp: fc.boolean() }), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (told) => {
        let atMs = 0;
        const series = told.map(({ afterMs, isUp }, index) => {
          atMs += afterMs;
          return isUp ? pong(index + 1, atMs, { rttNs: index + 1e6 }) : down(index + 1, atMs);
        });
        const { writes } = run([LISTED, ...series]);
        const shown = writes.map(({ entry }) => entry.value);
        const values = series.map(({ value }) => value);
        expect(deduplicated(shown)).toEqual(deduplicated(values));
        for (const [index, { event, before, entry }] of writes.entries()) {
          const previous = writes[index - 1]?.event;
          if (previous === undefined || before.value !== entry.value) continue;
          const sinceMs = (event as Observation).monotonicMs - (previous as Observation).monotonicMs;
          expect(sinceMs).toBeGreaterThan(SETTINGS.updateStatusIntervalMs);
        }
      }),
    );
  });

  it('lets no miss write where its value is shown, and no Connecting take a value away', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 40 }), (told) => {
        for (const { event, before, entry } of run([LISTED, ...told]).writes) {
          if (event.kind === 'miss') expect(before.value).not.toBe(entry.value);
          if (before.value !== 'Connecting') expect(entry.value).not.toBe('Connecting');
        }
      }),
    );
  });

  it('shows a latency only while Connected, a reason only with the value it belongs to', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 40 }), (told) => {
        for (const { event, entry } of run([LISTED, ...told]).writes) {
          if (entry.value !== 'Connected') expect(entry).not.toHaveProperty('latency');
          expect(entry.latency?.value ?? '1ms').not.toMatch(/^-|^0s$|N\/A/);
          if (event.kind !== 'silent') expect(entry.reason).toBe(event.reason);
        }
      }),
    );
  });

  it('comes to the last value whatever was refused or lost before, once it is heard', () => {
    const faults = fc.array(fc.constantFrom('refused' as const, 'lost' as const, undefined), { maxLength: 40 });
    fc.assert(
      fc.property(faults, fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }), (fault, ups) => {
        const series = ups.map((isUp, index) =>
          isUp ? pong(index + 1, index * 1_000) : down(index + 1, index * 1_000),
        );
        const { entry } = run([LISTED, ...series, ...[41].map((n) => pong(n, n * 1_000))], (index) => fault[index]);
        expect(entry.value).toBe('Connected');
      }),
    );
  });

  it('counts the changes of value that were told and never shown', () => {
    const faults = fc.array(fc.constantFrom('refused' as const, undefined), { minLength: 20, maxLength: 20 });
    fc.assert(
      fc.property(faults, fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }), (fault, ups) => {
        const first = pong(1, 0); // from here on what is shown is known
        const series = ups.map((isUp, index) => (isUp ? pong : down)(index + 2, index * 1_000));
        const told = [LISTED, first, ...series, pong(30, 50_000)];
        const { superseded } = run(told, (index) => (index < 2 ? undefined : fault[index - 2]));

        let expected = 0;
        let unshown = 0;
        for (const [index, { value }] of series.entries()) {
          if (value !== [first, ...series][index]?.value) unshown += 1;
          if (fault[index] === 'refused') continue;
          expected += Math.max(0, unshown - 1); // all but the last, which is shown now
          unshown = 0;
        }
        if (series.at(-1)?.value === 'Error') unshown += 1; // by the last PONG
        expected += Math.max(0, unshown - 1);
        expect(superseded).toBe(expected);
      }),
    );
  });

  it('looks at the entry after a write that got no answer, so that what was told last is what is shown', () => {
    const told = [LISTED, pong(1, 0), down(2, 1_000), pong(3, 2_000)];
    const lost = run(told, (index) => (index === 2 ? 'lost' : undefined));
    expect(lost.entry.value).toBe('Connected');
    expect([lost.writes.length, lost.superseded]).toEqual([3, 0]);
    const refused = run(told, (index) => (index === 2 ? 'refused' : undefined));
    expect([refused.writes.length, refused.superseded]).toEqual([1, 1]);
    expect(refused.state).not.toHaveProperty('pending');
  });

  it('tells a namesake from the Connection that was listed', () => {
    const state = judgeEvent(undefined, LISTED, SETTINGS).state;
    const judgement = judgeEvent(state, pong(1, 0), SETTINGS);
    if (judgement.kind !== 'candidate') throw new Error(judgement.kind);
    const entry = initialEntry(ABOUT.interfaceId, T0);
    expect(judgeWrite(judgement, connectionWith(entry, 'uid-2'))).toMatchObject({
      kind: 'orphan',
      reason: 'OtherConnection',
    });
    expect(judgeWrite(judgement, undefined)).toMatchObject({ kind: 'orphan', reason: 'NoConnection' });
  });
});

function deduplicated<T>(values: readonly T[]): T[] {
  return values.filter((value, index) => value !== values[index - 1]);
}
