import { describe, expect, it } from 'vitest';
import { compareRuns, expectedByChance } from './compare.ts';
import { BENCH_FORMAT, type BenchRun, curvesOf, type SuiteResult } from './result.ts';

/** A run of one suite: a floor that takes `floorMs`, and a case over it. */
function run(floorMs: readonly number[], caseMs: readonly number[], floor?: string): BenchRun {
  const shape = { unit: 'ms', better: 'lower' } as const;
  return {
    ...{ format: BENCH_FORMAT, startedAt: '2026-01-01T00:00:00Z', tookMs: 1, versions: {}, repeats: 3, durationMs: 1 },
    machine: { cpu: 'x', cores: 2, memoryBytes: 1, system: 'x', loadAtStart: 0, loadAtEnd: 0, niceness: 0 },
    suites: [
      {
        ...{ name: 'suite', summary: 's' },
        cases: [
          { ...shape, name: 'floor', samples: floorMs },
          { ...shape, name: 'case', samples: caseMs, ...(floor !== undefined && { floor }) },
        ],
      },
    ],
  };
}

const verdictOf = (before: BenchRun, now: BenchRun) =>
  compareRuns(before, now).find(({ name }) => name === 'case')?.verdict;

describe('compareRuns', () => {
  const before = run([10, 10, 10], [20, 21, 22], 'floor');

  it('calls it noise when the whole machine is slower', () => {
    expect(verdictOf(before, run([30, 30, 30], [60, 63, 66], 'floor'))).toBe('noise');
  });

  it('calls it noise when the two runs overlap, whatever the medians', () => {
    expect(verdictOf(before, run([10, 10, 10], [21.5, 30, 40], 'floor'))).toBe('noise');
  });

  it('calls it noise when the runs are apart and the medians hardly differ', () => {
    expect(verdictOf(before, run([10, 10, 10], [22.1, 22.2, 22.3], 'floor'))).toBe('noise');
  });

  it('sees a regression and, the other way round, an improvement', () => {
    const slow = run([10, 10, 10], [30, 31, 32], 'floor');
    expect(verdictOf(before, slow)).toBe('regression');
    expect(verdictOf(slow, before)).toBe('improvement');
  });

  it('does not judge runs of fewer than three repeats', () => {
    expect(verdictOf(before, run([10, 10], [90, 91], 'floor'))).toBe('not judged');
  });

  it('tells of a case that is gone, unless it was not asked for', () => {
    const [suite] = before.suites;
    const now: BenchRun = { ...before, suites: [{ ...(suite as SuiteResult), cases: [], leftOut: 'it failed: x' }] };
    expect(compareRuns(before, now)).toMatchObject([
      { name: 'floor', verdict: 'not judged', why: 'gone: it failed: x' },
      { name: 'case', verdict: 'not judged', why: 'gone: it failed: x' },
    ]);
    expect(compareRuns(before, now, 'ca').map(({ name }) => name)).toEqual(['case']);
    expect(compareRuns(before, { ...before, suites: [] })).toEqual([]);
  });

  it('does not judge a case without a floor', () => {
    expect(verdictOf(run([10], [20]), run([10], [90]))).toBe('not judged');
  });

  it('sees that a count is 0 no more, floor or not', () => {
    const none = run([10, 10, 10], [0, 0, 0]);
    expect(verdictOf(none, run([10], [0, 0, 1]))).toBe('regression');
    expect(verdictOf(run([10], [0, 0, 1]), none)).toBe('improvement');
    expect(verdictOf(none, none)).toBe('not judged');
  });
});

describe('expectedByChance', () => {
  it('counts the judged cases by the ways in which their repeats can be dealt out', () => {
    const three = run([10, 10, 10], [20, 21, 22], 'floor');
    expect(expectedByChance(compareRuns(three, three))).toBeCloseTo(1 / 10, 10);
    const five = run([10, 10, 10, 10, 10], [20, 21, 22, 23, 24], 'floor');
    expect(expectedByChance(compareRuns(five, five))).toBeCloseTo(1 / 126, 10);
  });

  it('leaves out what is not judged, whatever the run says of its repeats', () => {
    const joined = { ...run([10, 10], [20, 21], 'floor'), repeats: 1 };
    expect(expectedByChance(compareRuns(joined, joined))).toBe(0);
  });
});

describe('curvesOf', () => {
  it('fits the exponent of a power law', () => {
    const point = (at: number) => ({
      ...({ name: `${at}`, unit: 'ms', better: 'lower', samples: [3 * at ** 2] } as const),
      curve: { name: 'square', by: 'things', at, why: 'w' },
    });
    const [curve] = curvesOf({ name: 's', summary: 's', cases: [1, 2, 4, 8].map(point) });
    expect(curve?.exponent).toBeCloseTo(2, 10);
  });
});
