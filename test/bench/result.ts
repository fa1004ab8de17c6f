import { fitPower, median } from './statistics.ts';
import type { BenchCase } from './suite.ts';

/** One run of the benchmarks, as its JSON file holds it. */
export type BenchRun = {
  readonly format: typeof BENCH_FORMAT;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly tookMs: number;
  /** Where it was taken in several: what differs between them is then with the suites. */
  readonly parts?: number;
  readonly machine: Machine;
  /** Of the product, Node, and the real parts. */
  readonly versions: Readonly<Record<string, string>>;
  readonly repeats: number;
  readonly durationMs: number;
  readonly suites: readonly SuiteResult[];
};

export const BENCH_FORMAT = 'wg-keepalive.bench.v1';

export type Machine = {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly system: string;
  /** Of one minute, before the first sample and after the last: well above `cores`, others were at work too. */
  readonly loadAtStart: number;
  readonly loadAtEnd: number;
  /** Scheduling priority that the run had, from -20 (first) to 19; 0 is everybody's. */
  readonly niceness: number;
  /** Whether it had the scheduler's real-time class (`chrt -r 1`), where the niceness says nothing. */
  readonly isRealTime?: boolean;
};

/** Under which a part of a run was taken. */
export type Circumstances = Pick<BenchRun, 'startedAt' | 'tookMs' | 'repeats' | 'durationMs'> &
  Pick<Machine, 'loadAtStart' | 'loadAtEnd' | 'niceness' | 'isRealTime'> & { readonly commit: string };

export function circumstancesOf({
  startedAt,
  tookMs,
  repeats,
  durationMs,
  machine,
  versions,
}: BenchRun): Circumstances {
  const { loadAtStart, loadAtEnd, niceness, isRealTime = false } = machine;
  const commit = versions.commit ?? 'unknown';
  return { startedAt, tookMs, repeats, durationMs, loadAtStart, loadAtEnd, niceness, isRealTime, commit };
}

export type SuiteResult = {
  readonly name: string;
  readonly summary: string;
  /** Where they are not those of the whole run. */
  readonly circumstances?: Circumstances;
  /** Why it was left out, or failed. */
  readonly leftOut?: string;
  readonly failed?: true;
  readonly cases: readonly CaseResult[];
};

export type CaseResult = Pick<BenchCase, 'name' | 'unit' | 'better' | 'floor' | 'goal' | 'curve'> & {
  /** One a repeat, in order. */
  readonly samples: readonly number[];
};

/** Sample by sample, so that what slowed a whole repeat down cancels out; `undefined` for a case without a floor. */
export function ratios(result: CaseResult, suite: SuiteResult): readonly number[] | undefined {
  const floor = suite.cases.find(({ name }) => name === result.floor);
  if (floor === undefined || floor.name === result.name) return undefined;
  return result.samples.map((sample, repeat) => sample / (floor.samples[repeat] as number));
}

/** By the median; `undefined` for a case without a goal, or without samples. */
export function meetsGoal({ goal, better, samples }: CaseResult): boolean | undefined {
  if (goal === undefined || samples.length === 0) return undefined;
  return better === 'higher' ? median(samples) >= goal : median(samples) <= goal;
}

export type Curve = {
  readonly name: string;
  readonly by: string;
  readonly unit: string;
  readonly why: string;
  readonly points: readonly { readonly at: number; readonly median: number }[];
  readonly exponent: number | undefined;
};

/** The growth curves of a suite, each with its exponent fitted to the medians. */
export function curvesOf({ cases }: SuiteResult): readonly Curve[] {
  const byName = Map.groupBy(
    cases.filter(({ samples }) => samples.length > 0),
    ({ curve }) => curve?.name,
  );
  return [...byName].flatMap(([name, members]) => {
    const [first] = members;
    if (name === undefined || first?.curve === undefined) return [];
    const points = members.map(({ curve, samples }) => ({ at: curve?.at ?? 0, median: median(samples) }));
    const fit = fitPower(points.map(({ at, median: y }) => ({ x: at, y })));
    return [{ name, by: first.curve.by, unit: first.unit, why: first.curve.why, points, exponent: fit?.exponent }];
  });
}
