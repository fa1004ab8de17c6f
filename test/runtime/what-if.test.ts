import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import { SettingsEstimate } from '../../shared/domain/recorded-settings.ts';
import { Rejudge, type VerdictSettings } from '../../shared/domain/rejudge.ts';
import { compareOutages } from '../../shared/domain/replay-statistics.ts';
import { compareResults, formatWhatIf } from '../../shared/domain/what-if-text.ts';
import { WhatIf, type WhatIfSettings } from '../../shared/runtime/what-if.ts';
import { FunctionWorld, SETTINGS } from '../support/function-world.ts';
import { observationOf, type PathOutage, probeRecording, verdictsOf } from '../support/probe-recording.ts';
import { REPLAYED, recordedBy } from '../support/replay-of.ts';
import { syntheticObservations } from '../support/synthetic-observations.ts';

const INTERVAL_MS = 2_000;
const DURATION_MS = 600_000;
const by = (lossThreshold: number, intervalMs = INTERVAL_MS): VerdictSettings => ({ intervalMs, lossThreshold });

function rejudged(messages: readonly RecordedMessage[], recorded: VerdictSettings, wanted: VerdictSettings) {
  const rejudge = new Rejudge(recorded, wanted);
  return messages.flatMap((message) => rejudge.take(message));
}

async function whatIf(messages: Iterable<RecordedMessage>, variants: Record<string, WhatIfSettings>) {
  const recorded = { ...SETTINGS, ...by(5) };
  const labelled = Object.entries({ recorded: {}, ...variants }).map(([label, settings]) => ({ label, settings }));
  const run = new WhatIf({ functions: REPLAYED, recorded, variants: labelled });
  let endUnixMs = 0;
  for (const message of messages) {
    await run.take(message);
    endUnixMs = message.storedAtUnixMs;
  }
  return compareResults(run.results(endUnixMs));
}

/** Outages apart from each other, so that each is one whatever the settings. */
const outages: fc.Arbitrary<PathOutage[]> = fc
  .array(
    fc.record({ gapMs: fc.integer({ min: 40_000, max: 90_000 }), lengthMs: fc.integer({ min: 500, max: 40_000 }) }),
    {
      maxLength: 6,
    },
  )
  .map((parts) => {
    let at = 0;
    return parts.map(({ gapMs, lengthMs }) => {
      const fromMs = at + gapMs;
      at = fromMs + lengthMs;
      return { fromMs, toMs: at };
    });
  });

describe('observations judged anew', () => {
  it('by the recorded settings give the recorded verdicts', () => {
    fc.assert(
      fc.property(outages, fc.integer({ min: 1, max: 8 }), (paths, threshold) => {
        const messages = probeRecording(by(threshold), paths, DURATION_MS);
        expect(verdictsOf(rejudged(messages, by(threshold), by(threshold)))).toEqual(verdictsOf(messages));
      }),
      { numRuns: 60 },
    );
  });

  it('by another threshold give the verdicts of a gateway that had it: Error to the millisecond, recovery within an interval', () => {
    const thresholds = fc.integer({ min: 2, max: 9 });
    fc.assert(
      fc.property(outages, thresholds, thresholds, (paths, recorded, wanted) => {
        const derived = verdictsOf(
          rejudged(probeRecording(by(recorded), paths, DURATION_MS), by(recorded), by(wanted)),
        );
        const actual = verdictsOf(probeRecording(by(wanted), paths, DURATION_MS));
        // Where an outage just about reaches a deadline, the PINGs that only the other gateway sent decide.
        const isClear = paths.every(({ fromMs, toMs }) => {
          const spanMs = toMs - fromMs;
          return [recorded, wanted].every((n) => Math.abs(spanMs - n * INTERVAL_MS) > 2 * INTERVAL_MS);
        });
        fc.pre(isClear);
        expect(derived.map(({ value }) => value)).toEqual(actual.map(({ value }) => value));
        derived.forEach(({ value, atMs }, index) => {
          const differenceMs = atMs - (actual[index]?.atMs ?? 0);
          if (value === 'Error') expect(Math.abs(differenceMs)).toBeLessThanOrEqual(1);
          else expect(Math.abs(differenceMs)).toBeLessThanOrEqual(INTERVAL_MS);
        });
      }),
      { numRuns: 80 },
    );
  });

  it('keep the number of every observation growing, so that none turns stale', () => {
    const messages = probeRecording(by(5), [{ fromMs: 60_000, toMs: 90_000 }], DURATION_MS);
    for (const wanted of [by(2), by(9), by(3, 4_000)]) {
      const sequences = rejudged(messages, by(5), wanted).map((one) => observationOf(one).sequence);
      expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    }
  });

  it('by a longer interval count the PINGs that would have been sent', () => {
    const messages = probeRecording(by(5), [], DURATION_MS);
    const every4s = rejudged(messages, by(5), by(5, 4_000));
    expect(every4s.length).toBeGreaterThan(messages.length / 2 - 3);
    expect(every4s.length).toBeLessThan(messages.length / 2 + 3);
    expect(() => new Rejudge(by(5), by(5, 1_000))).toThrow(/1000 ms: want at least the recorded 2000 ms/);
  });

  it('tell late observations from new ones', () => {
    const messages = probeRecording(by(5), [], 60_000);
    const late = messages[3] as RecordedMessage;
    const out = rejudged([...messages.slice(0, 10), { ...late, sequence: 11 }], by(5), by(3));
    expect(out.map((one) => observationOf(one).sequence).at(-1)).toBe(1);
  });
});

describe('what if', () => {
  it('says which outages other settings report earlier, later or not at all', async () => {
    const paths = [
      { fromMs: 60_000, toMs: 90_000 },
      { fromMs: 200_000, toMs: 213_500 },
      { fromMs: 400_000, toMs: 406_500 },
    ];
    const { base, variants } = await whatIf(probeRecording(by(5), paths, DURATION_MS), {
      nervous: { verdict: by(2) },
      calm: { verdict: by(9) },
      lazy: { updateStatusIntervalMs: 60_000 },
    });
    expect(base.statistics.outages).toHaveLength(2);
    const [nervous, calm, lazy] = variants;
    expect(nervous?.statistics.outages).toHaveLength(3);
    expect(nervous?.comparedToBase).toMatchObject({ earlier: 2, later: 0, meanShiftMs: -6_000 });
    expect(nervous?.comparedToBase.additional).toHaveLength(1);
    expect(calm?.comparedToBase).toMatchObject({ earlier: 0, later: 1, meanShiftMs: 8_000 });
    expect(calm?.comparedToBase.unreported).toHaveLength(1);
    expect(lazy?.comparedToBase).toMatchObject({ same: 2, earlier: 0, later: 0 });
    expect(lazy?.statistics.writes.tunnels).toBeLessThan(base.statistics.writes.tunnels / 3);
    for (const { statistics } of [base, ...variants]) {
      const { Connected, Connecting, Error: down } = statistics.timeInStateMs;
      expect(Connected + Connecting + down).toBeGreaterThan(DURATION_MS - 5_000);
    }
    const text = formatWhatIf({ base, variants }).join('\n');
    expect(text).toMatch(/^nervous +3 +/m);
    expect(text).toMatch(/not reported with calm:\n {2}ns\/gw-a liqo-tunnel Lost from 2026-01-01T00:03:28.*for/);
  });

  it('says when gateways would have been called silent', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const gatewayEpoch = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch, sequence: 1, kind: 'pong' });
    await world.clock.advance(45_000);
    await world.observe({ gatewayEpoch, sequence: 2, kind: 'pong', monotonicMs: 45_000 });
    const { base, variants } = await whatIf(await recordedBy(world), {
      sooner: { gatewaySilentAfterMs: 10_000 },
      same: { gatewaySilentAfterMs: SETTINGS.gatewaySilentAfterMs },
      never: { gatewaySilentAfterMs: 60_000 },
    });
    expect(base.statistics.outages).toMatchObject([{ reason: 'GatewaySilent' }]);
    expect(variants[0]?.comparedToBase).toMatchObject({ earlier: 1, meanShiftMs: -20_000 });
    expect(variants[1]?.comparedToBase).toMatchObject({ same: 1 });
    expect(variants[2]?.comparedToBase.unreported).toHaveLength(1);
  });

  it('takes no word of an older run for one of the newer that is gone', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const [older, newer] = [await world.announce(['liqo-tunnel']), await world.announce(['liqo-tunnel'])];
    await world.observe({ gatewayEpoch: newer, sequence: 1, kind: 'pong' });
    for (let sequence = 1; sequence <= 20; sequence++) {
      await world.clock.advance(2_000);
      await world.observe({ gatewayEpoch: older, sequence, kind: 'pong' });
    }
    const { variants } = await whatIf(await recordedBy(world), { sooner: { gatewaySilentAfterMs: 10_000 } });
    expect(variants[0]?.statistics.outages).toMatchObject([{ reason: 'GatewaySilent' }]);
  });

  it('judges nothing anew where nothing is changed', async () => {
    const messages = [...syntheticObservations({ connections: 2, tunnels: 2, intervalMs: 2_000, rounds: 400 })];
    const { base, variants } = await whatIf(messages, { again: {} });
    expect(variants[0]?.statistics).toEqual(base.statistics);
    expect(base.statistics.flaps).toBeGreaterThan(0);
  });
});

describe('the settings of a window that does not tell them', () => {
  it('are read off its observations', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(50, 250, 1_000, 2_000, 5_000),
        fc.integer({ min: 2, max: 10 }),
        (intervalMs, threshold) => {
          const window = intervalMs * threshold;
          const cut = [{ fromMs: 20 * intervalMs, toMs: 20 * intervalMs + 3 * window }];
          const estimate = new SettingsEstimate();
          for (const message of probeRecording(by(threshold, intervalMs), cut, 60 * intervalMs + 4 * window))
            estimate.take(message);
          expect(estimate.read()).toEqual({ intervalMs, lossThreshold: threshold });
        },
      ),
      { numRuns: 30 },
    );
  });

  it('stay open where nothing tells', () => {
    expect(new SettingsEstimate().read()).toEqual({});
  });
});

describe('outages', () => {
  it('are the same if they overlap', () => {
    const outage = (startUnixMs: number, endUnixMs?: number) => ({
      ...{ tunnel: 't', reason: 'Lost', startUnixMs },
      ...(endUnixMs !== undefined && { endUnixMs }),
    });
    const compared = compareOutages(
      [outage(10, 20), outage(50, 60), outage(90)],
      [outage(12, 14), outage(16, 30), outage(95)],
    );
    expect(compared).toMatchObject({ same: 0, earlier: 0, later: 2, unreported: [outage(50, 60)], additional: [] });
  });
});
