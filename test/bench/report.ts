import { formatDuration } from '../../shared/domain/duration.ts';
import { textTable } from '../../shared/domain/text-table.ts';
import { COMPARISON_RULE, type Comparison } from './compare.ts';
import {
  type BenchRun,
  type CaseResult,
  type Circumstances,
  circumstancesOf,
  curvesOf,
  meetsGoal,
  ratios,
  type SuiteResult,
} from './result.ts';
import { median } from './statistics.ts';

type Row = readonly string[];

const CASE_HEAD = ['case', 'median', 'spread', 'unit', 'of its floor'] as const;

/** With a column of goals where there are any. */
function caseRows(suite: SuiteResult): readonly Row[] {
  const rows = suite.cases.map((one) => rowOf(one, suite));
  if (suite.cases.every(({ goal }) => goal === undefined)) return [CASE_HEAD, ...rows];
  return [[...CASE_HEAD, 'goal'], ...rows.map((row, index) => [...row, goalOf(suite.cases[index] as CaseResult)])];
}

function goalOf(result: CaseResult): string {
  const { goal, better } = result;
  const isMet = meetsGoal(result);
  if (goal === undefined || isMet === undefined) return '';
  return `${better === 'higher' ? 'at least' : 'at most'} ${figure(goal)}: ${isMet ? 'met' : 'missed'}`;
}

/** For a terminal. */
export function tableOf(suite: SuiteResult): string {
  if (suite.leftOut !== undefined) return `${suite.name}: left out: ${suite.leftOut}`;
  return `${suite.name}: ${suite.summary}\n${columns(caseRows(suite))}${curvesOf(suite)
    .map(({ name, exponent }) => `\n  ${name}: exponent ${exponent?.toFixed(2) ?? '–'}`)
    .join('')}`;
}

/** How many changed, and how many of them chance alone would have made. */
export function comparisonSummary(comparisons: readonly Comparison[], byChance: number): string {
  const count = (wanted: Comparison['verdict']) => comparisons.filter(({ verdict }) => verdict === wanted).length;
  const [regressions, improvements] = [count('regression'), count('improvement')];
  const judged = comparisons.length - count('not judged');
  const gone = comparisons.filter(({ why }) => why?.startsWith('gone')).length;
  return `${judged} judged${gone > 0 ? `, ${gone} gone` : ''}: regressions ${regressions}, improvements ${improvements}; by chance alone at most ${figure(byChance)} of them are expected`;
}

export function comparisonTable(comparisons: readonly Comparison[]): string {
  const rows = comparisons.map(({ suite, name, verdict, before, now, why }) => [
    verdict,
    `${suite}: ${name}`,
    before === undefined || now === undefined ? (why ?? '') : `${figure(before)} → ${figure(now)} of the floor`,
  ]);
  return columns([['verdict', 'case', 'ratio'], ...rows]);
}

/** The page `docs/performance.md`. */
export function performanceMarkdown(run: BenchRun): string {
  const { machine, versions } = run;
  const isWhole = run.parts === undefined;
  const taken = isWhole
    ? circumstancesText(circumstancesOf(run), machine.cores)
    : `Taken in ${run.parts} parts, the circumstances of each with its suites.`;
  return `# Performance

Written by \`npm run bench -- --write docs/performance.md\` from one run, whose raw samples are in [performance.json](performance.json). To repeat it: \`npm ci && npm run bench\`; one suite:
\`npm run bench -- functions\`; against this page: \`npm run bench -- --compare docs/performance.json\`.

${machine.cpu}, ${machine.cores} cores, ${figure(machine.memoryBytes / 2 ** 30)} GiB, ${machine.system}. ${taken}
${Object.entries(versions)
  .filter(([name]) => name !== 'commit')
  .map(([name, version]) => `${name} ${version}`)
  .join(', ')}.

"Median" and "spread" (least and greatest) are over the repeats. "Of its floor" is the median of the ratios to the case named there, which does the least that could do the job, in the same repeat. No figure without such a ratio
says anything about another machine.

${COMPARISON_RULE}

${run.suites.map((suite) => suiteMarkdown(suite, machine.cores)).join('\n')}`;
}

function circumstancesText(taken: Circumstances, cores: number): string {
  const { startedAt, commit, repeats, durationMs, tookMs, loadAtStart, loadAtEnd } = taken;
  const nice = taken.niceness === 0 ? '' : `, at niceness ${taken.niceness}`;
  const priority = taken.isRealTime ? ', in the real-time class of the scheduler' : nice;
  const busy =
    loadAtStart > cores // afterwards it is the suites' own load, too
      ? ' **A busy machine**: more was at work on it than it has cores. Figures by time are too low and spreads too wide; figures by CPU time, and ratios to a floor of the same run, hold better.'
      : '';
  return `${startedAt.slice(0, 10)}, commit ${commit}, ${repeats} repeats, ${formatDuration(durationMs)} of steady load, ${formatDuration(
    Math.round(tookMs / 1_000) * 1_000,
  )} in all${priority}; load average ${loadAtStart} before and ${loadAtEnd} after.${busy}`;
}

function suiteMarkdown(suite: SuiteResult, cores: number): string {
  const taken = suite.circumstances && `\n${circumstancesText(suite.circumstances, cores)}\n`;
  const head = `## ${suite.name}\n\n${suite.summary}\n${taken ?? ''}`;
  if (suite.leftOut !== undefined) return `${head}\nLeft out: ${suite.leftOut}\n`;
  const curves = curvesOf(suite).map(
    ({ name, by, unit, points, exponent, why }) =>
      `- **${name}**: ${points.map(({ at, median: y }) => `${figure(y)} at ${at}`).join(', ')} ${by} (${unit}): exponent ${exponent?.toFixed(2) ?? '–'}. ${why}\n`,
  );
  const grown = curves.length === 0 ? '' : `\nGrowth, exponents fitted to the medians:\n\n${curves.join('')}`;
  return `${head}\n${markdownTable(caseRows(suite))}\n${grown}`;
}

function rowOf(result: CaseResult, suite: SuiteResult): Row {
  const { name, unit, floor, samples } = result;
  if (samples.length === 0) return [name, '–', '–', unit, ''];
  const all = ratios(result, suite);
  const ofFloor = all === undefined ? '' : `${figure(median(all))} × ${floor}`;
  return [
    name,
    figure(median(samples)),
    `${figure(Math.min(...samples))} … ${figure(Math.max(...samples))}`,
    unit,
    ofFloor,
  ];
}

/** Three significant digits, with thousands grouped. */
export function figure(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en-US', { maximumFractionDigits: 4 });
}

function columns(rows: readonly Row[]): string {
  return textTable(rows)
    .map((line) => `  ${line}`)
    .join('\n');
}

function markdownTable([head = [], ...rows]: readonly Row[]): string {
  const line = (cells: Row) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [
    line(head),
    line(head.map((_, index) => (index === 1 || index === 2 ? '---:' : '---'))),
    ...rows.map(line),
  ].join('\n');
}
