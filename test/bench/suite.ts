import type { Need } from '../support/real-parts.ts';

/** What a run of the benchmarks was told. */
export type BenchSettings = {
  /** How long a case under steady load lasts. */
  readonly durationMs: number;
};

/** Cases that share a floor and what they prepare; `test/bench/<name>/suite.ts` exports one as `suite`. */
export type Suite = {
  readonly name: string;
  /** What it measures, in a sentence. */
  readonly summary: string;
  /** What the machine must have; without it the suite is left out, loudly. */
  readonly needs?: readonly Need[];
  /** Runs before the first sample; what it returns is disposed of after the last. */
  readonly prepare?: (settings: BenchSettings) => Promise<AsyncDisposable>;
  readonly cases: readonly BenchCase[];
};

export type BenchCase = {
  /** Unique within its suite. */
  readonly name: string;
  /** `events/s`, `CPU ms per 1,000 PINGs`. */
  readonly unit: string;
  readonly better: 'higher' | 'lower';
  /**
   * Name of a case of this suite that does the least that could do the job, in the same run. The ratio to it is what is
   * compared between runs; a case without one is shown, and never judged.
   */
  readonly floor?: string;
  /** What the median is to reach, and the table says whether it does: at least this, or at most, as {@link better} says. */
  readonly goal?: number;
  /** It takes long: one sample, however many repeats. */
  readonly once?: true;
  /** Makes this case a point of a growth curve; an exponent is fitted to all points of its name. */
  readonly curve?: CurvePoint;
  /**
   * Takes one sample. Cases take turns, so that a machine that slows down slows all of them.
   *
   * @param repeat - from 0
   */
  readonly run: (repeat: number, settings: BenchSettings) => Promise<number>;
};

export type CurvePoint = {
  readonly name: string;
  /** What `at` counts: `tunnels a Connection`. */
  readonly by: string;
  readonly at: number;
  /** Why the curve should have the exponent that it should have, in a sentence. */
  readonly why: string;
};
