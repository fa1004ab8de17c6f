import { describe, expect, it } from 'vitest';
import { UsageError } from '../../shared/cli/errors.ts';
import { joinRuns, lackingSuites } from './join-runs.ts';
import { BENCH_FORMAT, type BenchRun } from './result.ts';

function part(commit: string, load: number, suites: Readonly<Record<string, number>>): BenchRun {
  return {
    ...{ format: BENCH_FORMAT, startedAt: `${commit}`, tookMs: 10, versions: { commit, node: '24' } },
    ...{ repeats: 3, durationMs: 1 },
    machine: {
      cpu: 'x',
      cores: 2,
      memoryBytes: 24 * 2 ** 30,
      system: 'x',
      loadAtStart: load,
      loadAtEnd: load,
      niceness: 0,
    },
    suites: Object.entries(suites).map(([name, sample]) => ({
      ...{ name, summary: name, cases: [{ name: 'a', unit: 'ms', better: 'lower', samples: [sample] }] },
    })),
  };
}

describe('joinRuns', () => {
  it('has the suites of both, the later of two alike, and says of how many parts it is', () => {
    const joined = joinRuns(
      joinRuns(part('one', 1, { scale: 1 }), part('two', 0, { gateway: 2 })),
      part('two', 2, { scale: 3 }),
    );
    expect(joined).toMatchObject({
      startedAt: 'one',
      tookMs: 30,
      parts: 3,
      versions: { commit: 'one and two', node: '24' },
    });
    expect(joined.suites.map(({ name, cases }) => [name, cases[0]?.samples])).toEqual([
      ['gateway', [2]],
      ['scale', [3]],
    ]);
  });

  it('takes nothing away for a suite that failed or was left out, and lacks it still', () => {
    const failed = part('two', 2, { scale: 0, replay: 0 });
    const empty = failed.suites.map((suite) => ({
      ...suite,
      leftOut: 'it failed: x',
      failed: true as const,
      cases: [],
    }));
    const joined = joinRuns(part('one', 1, { scale: 1 }), { ...failed, suites: empty });
    expect(joined.suites.map(({ name, cases }) => [name, cases[0]?.samples])).toEqual([
      ['replay', undefined],
      ['scale', [1]],
    ]);
    expect(lackingSuites(joined, ['gateway', 'replay', 'scale'])).toEqual(['gateway', 'replay']);
    expect(joinRuns(joined, part('three', 3, { replay: 3 })).suites[0]).toMatchObject({ cases: [{ samples: [3] }] });
  });

  it('keeps the circumstances of each part with its suites, however often it is joined', () => {
    const first = joinRuns(part('one', 1, { scale: 1 }), { ...part('two', 2, { gateway: 2 }), repeats: 5 });
    const { suites } = joinRuns(first, part('three', 3, { replay: 3 }));
    expect(suites.map(({ circumstances }) => circumstances)).toMatchObject([
      { commit: 'two', loadAtStart: 2, repeats: 5 },
      { commit: 'three', loadAtStart: 3, repeats: 3 },
      { commit: 'one', loadAtStart: 1, repeats: 3 },
    ]);
  });

  it('refuses a run of another machine', () => {
    const kept = part('one', 0, {});
    const afterBoot = { ...kept.machine, memoryBytes: kept.machine.memoryBytes - 12_288 };
    expect(joinRuns(kept, { ...kept, machine: afterBoot }).parts).toBe(2);
    expect(() => joinRuns(kept, { ...kept, machine: { ...kept.machine, cores: 8 } })).toThrow(
      new UsageError('--resume: this machine is x, 8 cores, 24 GiB, the kept run is of x, 2 cores, 24 GiB'),
    );
  });
});
