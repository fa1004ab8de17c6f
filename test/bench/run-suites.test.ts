import { describe, expect, it } from 'vitest';
import { tableOf } from './report.ts';
import { meetsGoal } from './result.ts';
import { casesNamed, runSuite } from './run-suites.ts';
import type { BenchCase, Suite } from './suite.ts';

const named = (name: string, rest: Partial<BenchCase> = {}): BenchCase => ({
  ...{ name, unit: 'ms', better: 'lower', run: async () => 1 },
  ...rest,
});
const suite: Suite = {
  ...{ name: 'suite', summary: 'what it measures' },
  cases: [named('floor'), named('small load', { floor: 'floor' }), named('large load'), named('other')],
};
const settings = { repeats: 2, durationMs: 1_000, say: () => {} };

describe('casesNamed', () => {
  const names = (text: string) => casesNamed(suite, text).cases.map(({ name }) => name);

  it('takes the cases that have the text in their name, and the floors of these', () => {
    expect(names('small')).toEqual(['floor', 'small load']);
    expect(names('load')).toEqual(['floor', 'small load', 'large load']);
    expect(names('')).toHaveLength(4);
    expect(names('nothing')).toEqual([]);
  });
});

describe('runSuite', () => {
  it('goes through all cases in each repeat, and keeps every sample', async () => {
    const turns: string[] = [];
    const noted = (name: string) => named(name, { run: async (repeat) => turns.push(`${name} ${repeat}`) });
    const result = await runSuite({ ...suite, cases: [noted('a'), noted('b')] }, settings);
    expect(turns).toEqual(['a 0', 'b 0', 'a 1', 'b 1']);
    expect(result.cases.map(({ name, samples }) => [name, samples])).toEqual([
      ['a', [1, 3]],
      ['b', [2, 4]],
    ]);
  });

  it('takes one sample of a case that takes long, and keeps goals', async () => {
    const cases = [named('a'), named('long', { once: true, goal: 2 })];
    const result = await runSuite({ ...suite, cases }, settings);
    expect(result.cases.map(({ samples }) => samples.length)).toEqual([2, 1]);
    expect(result.cases.map(meetsGoal)).toEqual([undefined, true]);
    expect(tableOf(result)).toMatch(/long .*at most 2: met/);
    expect(meetsGoal({ name: 'x', unit: 'events/s', better: 'higher', goal: 2, samples: [1, 1, 3] })).toBe(false);
  });

  it('names the case that fails, or that gives no number', async () => {
    const failing = named('bad', { run: () => Promise.reject(new Error('no luck')) });
    await expect(runSuite({ ...suite, cases: [failing] }, settings)).rejects.toThrow(
      'bench suite: case "bad": no luck',
    );
    const nothing = named('none', { run: async () => Number.NaN });
    await expect(runSuite({ ...suite, cases: [nothing] }, settings)).rejects.toThrow('"none": sample NaN is no number');
  });

  it('refuses a floor that is no case', async () => {
    const lonely = named('lonely', { floor: 'gone' });
    await expect(runSuite({ ...suite, cases: [lonely] }, settings)).rejects.toThrow(
      'bench suite: case "lonely" has the floor "gone", which is no case',
    );
  });
});
