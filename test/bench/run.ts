/**
 * `npm run bench -- [SUITE…] [--case TEXT] [--repeats 5] [--duration 20s] [--json FILE [--resume]] [--compare OLD.json] [--write FILE.md] [--from FILE.json]`
 *
 * Runs the suites below this folder and prints a table; progress goes to stderr. `--case` takes only those cases whose name
 * has this text, and their floors. `--json` keeps machine, versions and raw samples; with `--resume` the suites join those
 * that the file has, and without names it is those that it lacks: a run in parts. `--write` makes the page of a run, with
 * its JSON beside it; `--from` takes a kept run instead of a new one.
 * Exit code 1 if a suite failed or `--compare` shows a regression, 2 for a wrong argument.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { UsageError } from '../../shared/cli/errors.ts';
import { formatDuration, parseDuration } from '../../shared/domain/duration.ts';
import { COMPARISON_RULE, compareRuns, expectedByChance } from './compare.ts';
import { joinRuns, lackingSuites } from './join-runs.ts';
import { describeMachine, loadNow, readVersions } from './machine.ts';
import { comparisonSummary, comparisonTable, performanceMarkdown, tableOf } from './report.ts';
import { BENCH_FORMAT, type BenchRun, type SuiteResult } from './result.ts';
import { casesNamed, runSuite } from './run-suites.ts';
import type { Suite } from './suite.ts';

const DEFAULT_REPEATS = 5;
const DEFAULT_DURATION_MS = 20_000;

try {
  const code = await main();
  process.exitCode ||= code;
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`bench: ${error.message}\n`);
  process.exitCode = 2;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArguments();
  if (values.write?.endsWith('.md') === false) {
    throw new UsageError(
      `--write ${JSON.stringify(values.write)}: want a name that ends in .md; its JSON goes beside it`,
    );
  }
  const before = values.compare === undefined ? undefined : await readRun(values.compare);
  const run = values.from === undefined ? await runAll(positionals, values) : await readRun(values.from);
  if (run.suites.some(({ failed }) => failed)) process.exitCode = 1;
  if (values.json !== undefined) await writeRun(values.json, run);
  if (values.write !== undefined) {
    await writeFile(values.write, performanceMarkdown(run));
    await writeRun(values.write.replace(/\.md$/, '.json'), run);
  }
  process.stdout.write(`${run.suites.map(tableOf).join('\n\n')}\n`);
  if (before === undefined) return 0;
  const comparisons = compareRuns(before, run, values.case);
  const summary = comparisonSummary(comparisons, expectedByChance(comparisons));
  process.stdout.write(`\n${comparisonTable(comparisons)}\n\n${summary}\n\n${COMPARISON_RULE}\n`);
  return comparisons.some(({ verdict }) => verdict === 'regression') ? 1 : 0;
}

type Values = ReturnType<typeof parseArguments>['values'];

async function runAll(wanted: readonly string[], values: Values): Promise<BenchRun> {
  const repeats = integer('repeats', values.repeats, DEFAULT_REPEATS);
  const durationMs = duration('duration', values.duration, DEFAULT_DURATION_MS);
  const names = await suiteNames();
  const unknown = wanted.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new UsageError(`there is no suite "${unknown}": want some of ${names.join(', ')}`);
  const text = values.case ?? '';
  const kept = values.resume ? await keptRun(values.json) : undefined;
  if (values.resume && text !== '') {
    throw new UsageError(`--case ${JSON.stringify(text)}: --resume measures suites as a whole; leave one of them out`);
  }
  const lacking = lackingSuites(kept, names);
  if (wanted.length === 0 && lacking.length === 0)
    throw new UsageError(`--resume: ${values.json} has all suites; name those that are to be measured again`);
  const suites = (await Promise.all((wanted.length > 0 ? wanted : lacking).map(loadSuite)))
    .map((suite) => casesNamed(suite, text))
    .filter(({ cases }) => cases.length > 0);
  if (suites.length === 0) throw new UsageError(`--case ${JSON.stringify(text)}: no case has that in its name`);
  const machine = describeMachine();
  const startedAt = new Date().toISOString();
  const startedMs = performance.now();
  const say = (line: string) => process.stderr.write(`${formatSeconds(performance.now() - startedMs)} ${line}\n`);
  const versions = await readVersions();
  const results: SuiteResult[] = [];
  const soFar = (): BenchRun => {
    const now: BenchRun = {
      ...{ format: BENCH_FORMAT, startedAt, tookMs: Math.round(performance.now() - startedMs) },
      ...{ machine: { ...machine, loadAtEnd: loadNow() }, versions, repeats, durationMs, suites: results },
    };
    return kept === undefined ? now : joinRuns(kept, now);
  };
  soFar(); // refuses what is no part of the kept run before anything is measured
  for (const suite of suites) {
    results.push(
      await runSuite(suite, { repeats, durationMs, say }).catch((error: Error) => failed(suite, error, say)),
    );
    if (values.json !== undefined) await writeRun(values.json, soFar()); // a long run that is cut short leaves this
  }
  return soFar();
}

async function keptRun(file: string | undefined): Promise<BenchRun> {
  if (file === undefined) throw new UsageError('--resume: want --json FILE, the run that goes on');
  return readRun(file);
}

async function loadSuite(name: string): Promise<Suite> {
  const { suite } = (await import(`./${name}/suite.ts`)) as { readonly suite: Suite };
  return suite;
}

/** One suite that fails does not cost what others have measured. */
function failed({ name, summary }: Suite, error: Error, say: (line: string) => void): SuiteResult {
  say(`${name}: FAILED: ${error.message}`);
  return { name, summary, failed: true, leftOut: `it failed: ${error.message}`, cases: [] };
}

/** Folders here that have a suite, in the order of the alphabet. */
async function suiteNames(): Promise<string[]> {
  const files = await readdir(import.meta.dirname, { recursive: true });
  return files.flatMap((file) => /^([^/]+)\/suite\.ts$/.exec(file)?.[1] ?? []).sort();
}

function parseArguments() {
  const text = { type: 'string' } as const;
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        case: text,
        repeats: text,
        duration: text,
        json: text,
        compare: text,
        write: text,
        from: text,
        resume: { type: 'boolean' },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function integer(flag: string, value: string | undefined, defaultValue: number): number {
  const parsed = value === undefined ? defaultValue : Number(value);
  if (Number.isInteger(parsed) && parsed >= 1) return parsed;
  throw new UsageError(`--${flag} ${JSON.stringify(value)}: want an integer from 1`);
}

function duration(flag: string, value: string | undefined, defaultValue: number): number {
  const parsed = value === undefined ? defaultValue : parseDuration(value);
  if (typeof parsed === 'number' && parsed >= 1_000) return parsed;
  throw new UsageError(
    `--${flag} ${JSON.stringify(value)}: want a duration from 1s, such as ${formatDuration(DEFAULT_DURATION_MS)}`,
  );
}

async function readRun(file: string): Promise<BenchRun> {
  const run = await readFile(file, 'utf8')
    .then(JSON.parse)
    .catch((error: Error) => {
      throw new UsageError(`${file}: ${error.message}`);
    });
  if (run?.format === BENCH_FORMAT) return run;
  throw new UsageError(`${file}: format is ${JSON.stringify(run?.format)}, want ${BENCH_FORMAT}: a file of --json`);
}

function writeRun(file: string, run: BenchRun): Promise<void> {
  return writeFile(file, `${JSON.stringify(run, undefined, 1)}\n`);
}

function formatSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1).padStart(7)}s`;
}
