import { UsageError } from '../../shared/cli/errors.ts';
import { type BenchRun, circumstancesOf, type SuiteResult } from './result.ts';

/**
 * A run that is taken in parts, each while the machine was quiet: what `later` has measured joins what `earlier` has, or
 * takes its place; what it could not measure does not. Each suite keeps the circumstances of its part.
 *
 * @throws UsageError for runs of two machines
 */
export function joinRuns(earlier: BenchRun, later: BenchRun): BenchRun {
  const [before, now] = [hardwareOf(earlier), hardwareOf(later)];
  if (before !== now) throw new UsageError(`--resume: this machine is ${now}, the kept run is of ${before}`);
  const suites = new Map(suitesOf(earlier).map((suite) => [suite.name, suite]));
  for (const suite of suitesOf(later)) {
    if (suite.leftOut === undefined || !isMeasured(suites.get(suite.name))) suites.set(suite.name, suite);
  }
  return {
    ...later,
    startedAt: earlier.startedAt,
    tookMs: earlier.tookMs + later.tookMs,
    parts: (earlier.parts ?? 1) + 1,
    versions: joinVersions(earlier.versions, later.versions),
    suites: [...suites.values()].sort((a, b) => a.name.localeCompare(b.name)),
  };
}

/** Those that a run has not measured: it did not have them, left them out, or they failed. */
export function lackingSuites(run: BenchRun | undefined, names: readonly string[]): readonly string[] {
  return names.filter((name) => !isMeasured(run?.suites.find((suite) => suite.name === name)));
}

function isMeasured(suite: SuiteResult | undefined): boolean {
  return suite !== undefined && suite.leftOut === undefined;
}

/** In whole GiB: what a kernel leaves of the memory changes by some pages from one boot to the next. */
function hardwareOf({ machine: { cpu, cores, memoryBytes } }: BenchRun): string {
  return `${cpu}, ${cores} cores, ${Math.round(memoryBytes / 2 ** 30)} GiB`;
}

function suitesOf(run: BenchRun): readonly SuiteResult[] {
  return run.suites.map((suite) => ({ circumstances: circumstancesOf(run), ...suite }));
}

function joinVersions(earlier: BenchRun['versions'], later: BenchRun['versions']): BenchRun['versions'] {
  const join = (name: string, now: string) => {
    const before = earlier[name]?.split(' and ') ?? [];
    return [...new Set([...before, now])].join(' and ');
  };
  return Object.fromEntries(Object.entries(later).map(([name, now]) => [name, join(name, now)]));
}
