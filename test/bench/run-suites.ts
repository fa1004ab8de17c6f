import { missingParts } from '../support/real-parts.ts';
import type { CaseResult, SuiteResult } from './result.ts';
import type { BenchSettings, Suite } from './suite.ts';

export type RunOptions = BenchSettings & {
  readonly repeats: number;
  /** Told what is going on, a line at a time. */
  readonly say: (line: string) => void;
};

/** The suite with those cases only whose name has this text, and with their floors. */
export function casesNamed(suite: Suite, text: string): Suite {
  const chosen = suite.cases.filter(({ name }) => name.includes(text));
  const floors = new Set(chosen.map(({ floor }) => floor));
  return { ...suite, cases: suite.cases.filter((one) => chosen.includes(one) || floors.has(one.name)) };
}

/**
 * Takes all samples of a suite: each repeat goes through all cases, so that a change of the machine's mood hits a case and
 * its floor alike.
 *
 * @throws what a case throws, with its name; Error for a floor that is no case
 */
export async function runSuite(suite: Suite, options: RunOptions): Promise<SuiteResult> {
  const { name, summary, cases } = suite;
  const unknown = cases.find(({ floor }) => floor !== undefined && !cases.some((other) => other.name === floor));
  if (unknown)
    throw new Error(`bench ${name}: case "${unknown.name}" has the floor "${unknown.floor}", which is no case`);
  const missing = await missingParts(suite.needs ?? []);
  if (missing.length > 0) {
    const leftOut = missing.map(({ need, remedy }) => `${need}: ${remedy}`).join('; ');
    options.say(`${name}: LEFT OUT, this machine lacks ${leftOut}`);
    return { name, summary, leftOut, cases: [] };
  }
  await using _prepared = await suite.prepare?.(options);
  const samples = new Map<string, number[]>(cases.map((one) => [one.name, []]));
  for (let repeat = 0; repeat < options.repeats; repeat++) {
    for (const one of cases) {
      if (one.once && repeat > 0) continue;
      const sample = await one.run(repeat, options).catch((cause) => {
        throw new Error(`bench ${name}: case "${one.name}": ${(cause as Error).message}`, { cause });
      });
      if (!Number.isFinite(sample)) throw new Error(`bench ${name}: case "${one.name}": sample ${sample} is no number`);
      samples.get(one.name)?.push(sample);
      options.say(`${name} ${repeat + 1}/${options.repeats}: ${one.name}: ${sample.toPrecision(4)} ${one.unit}`);
    }
  }
  return {
    name,
    summary,
    cases: cases.map((one): CaseResult => ({ ...shown(one), samples: samples.get(one.name) ?? [] })),
  };
}

function shown({ name, unit, better, floor, goal, curve }: Suite['cases'][number]): Omit<CaseResult, 'samples'> {
  return {
    name,
    unit,
    better,
    ...(floor !== undefined && { floor }),
    ...(goal !== undefined && { goal }),
    ...(curve && { curve }),
  };
}
