import { type BenchRun, type CaseResult, ratios, type SuiteResult } from './result.ts';
import { median } from './statistics.ts';

export type Verdict = 'regression' | 'improvement' | 'noise' | 'not judged';

export type Comparison = {
  readonly suite: string;
  readonly name: string;
  readonly verdict: Verdict;
  /** Median ratio to the floor, before and now. */
  readonly before?: number;
  readonly now?: number;
  /** How likely the ratios of two runs that measure the same are as far apart as a change has to be, at most. */
  readonly byChance?: number;
  /** Why there is no verdict, or one without ratios. */
  readonly why?: string;
};

/** With fewer, one run hardly ever overlaps the other. */
const LEAST_REPEATS = 3;
/** Medians that are nearer to each other than this are the same. */
const SMALLEST_CHANGE = 0.1;

/** Of the judged cases, how many would have changed by chance alone, at most: both runs measure the same. */
export function expectedByChance(comparisons: readonly Comparison[]): number {
  return comparisons.reduce((expected, { byChance = 0 }) => expected + byChance, 0);
}

/** That all of n draws are beyond all of m others, either way: 2 of the n + m over n ways to deal them out. */
function chanceApart(n: number, m: number): number {
  let ways = 1;
  for (let k = 1; k <= n; k++) ways *= (m + k) / k;
  return 2 / ways;
}

export const COMPARISON_RULE = `What is compared is the ratio of a case to the floor of the same run, repeat by repeat. It changed if the medians differ by more than ${SMALLEST_CHANGE * 100} % and
the two runs do not overlap: every ratio of one is beyond every ratio of the other. By chance alone that happens once in 10 with 3 repeats a run, once in 126 with 5.
All else is noise. A count that was 0 in every repeat of one run and not in the other changed, on any machine.`;

/**
 * What the suites of `now` had before and have no more is told, too.
 *
 * @param asked - `now` took only cases with this text in their names, and their floors
 * @see {@link COMPARISON_RULE}
 */
export function compareRuns(before: BenchRun, now: BenchRun, asked = ''): readonly Comparison[] {
  return now.suites.flatMap((suite) => {
    const old = before.suites.find(({ name }) => name === suite.name);
    const gone = (old?.cases ?? []).filter(
      ({ name }) => name.includes(asked) && !suite.cases.some((result) => result.name === name),
    );
    return [
      ...suite.cases.map((result) => compareCase(result, suite, old)),
      ...gone.map(({ name }): Comparison => {
        const why = suite.leftOut === undefined ? 'gone' : `gone: ${suite.leftOut}`;
        return { suite: suite.name, name, verdict: 'not judged', why };
      }),
    ];
  });
}

function compareCase(result: CaseResult, suite: SuiteResult, oldSuite: SuiteResult | undefined): Comparison {
  const about = { suite: suite.name, name: result.name };
  const old = oldSuite?.cases.find(({ name }) => name === result.name);
  if (oldSuite === undefined || old === undefined) return { ...about, verdict: 'not judged', why: 'new' };
  if (isZero(old) !== isZero(result)) {
    return {
      ...about,
      verdict: isZero(result) === (result.better === 'lower') ? 'improvement' : 'regression',
      why: zeros(old, result),
    };
  }
  const [ratiosBefore, ratiosNow] = [ratios(old, oldSuite), ratios(result, suite)];
  if (!ratiosBefore?.length || !ratiosNow?.length) return { ...about, verdict: 'not judged', why: 'no floor' };
  const repeats = Math.min(ratiosBefore.length, ratiosNow.length);
  if (repeats < LEAST_REPEATS) return { ...about, verdict: 'not judged', why: `fewer than ${LEAST_REPEATS} repeats` };
  const [medianBefore, medianNow] = [median(ratiosBefore), median(ratiosNow)];
  return {
    ...{ ...about, before: medianBefore, now: medianNow },
    byChance: chanceApart(ratiosBefore.length, ratiosNow.length),
    verdict: verdictOf(ratiosBefore, ratiosNow, result.better),
  };
}

/** A loss, say, that there must be none of: no floor is needed to judge it. */
function isZero({ samples }: CaseResult): boolean {
  return samples.length > 0 && samples.every((sample) => sample === 0);
}

function zeros(...results: readonly CaseResult[]): string {
  return results.map(({ samples }) => (samples.length > 0 ? median(samples) : '–')).join(' → ');
}

function verdictOf(before: readonly number[], now: readonly number[], better: CaseResult['better']): Verdict {
  const rose = Math.min(...now) > Math.max(...before);
  const fell = Math.max(...now) < Math.min(...before);
  const isLarge = Math.abs(median(now) / median(before) - 1) > SMALLEST_CHANGE;
  if (!isLarge || !(rose || fell)) return 'noise';
  return rose === (better === 'higher') ? 'improvement' : 'regression';
}
