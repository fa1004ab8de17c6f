import { basename } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const SECOND_MS = 1_000;
/** `simulation` runs hundreds of simulated worlds; the others start real servers, namespaces, programs and browsers. */
const LONG = ['simulation', 'contract', 'system', 'browser'];

type Shape = {
  readonly include: readonly string[];
  readonly exclude?: readonly string[];
  readonly maxWorkers?: number;
  readonly retry?: number;
};

/** @param timeoutMs - a bound, not an expectation: a machine under load is slow, and what hangs must end all the same */
function project(name: string, groupOrder: number, timeoutMs: number, shape: Shape) {
  const { include, exclude = [], maxWorkers, retry = 0 } = shape;
  return {
    test: {
      ...{ name, testTimeout: timeoutMs, hookTimeout: timeoutMs, sequence: { groupOrder }, retry },
      expect: { poll: { timeout: timeoutMs / 2 } },
      include: include.map((folder) => `test/${folder}/**/*.test.ts`),
      exclude: [...configDefaults.exclude, ...exclude.map((folder) => `test/${folder}/**`)],
      ...(maxWorkers !== undefined && { maxWorkers }),
    },
  };
}

/**
 * They wait for minutes of real time; one that is begun last keeps everybody waiting. Labs are not begun side by side:
 * the start of a real one takes both cores for a while, in which an embedded one would be late.
 */
const LONGEST = [
  ...['stale-page', 'real-lab-scenarios', 'functions-writes', 'connection-watch', 'embedded-lab', 'functions-slow-api'],
  ...['real-lab', 'command-line', 'connection-ensure', 'kubernetes', 'functions-faults', 'compose-run'],
  ...['real-lab-command', 'real-lab-cluster'],
].map((name) => `${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.indexOf(basename(moduleId));
      return index === -1 ? LONGEST.length : index;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

const isCi = Boolean(process.env.CI);
/** Suites mostly wait, in servers, ports, processes and namespaces of their own. */
const AT_A_TIME = 3;
/** They run against real time: what a noisy machine spoils there is tried once more before it counts. */
const RETRY = isCi ? 1 : 0;

/**
 * Cheap ones first. Beside real labs a page in Chromium loaded nothing now and then, most likely because interfaces of the
 * machine come and go with them (ERR_NETWORK_CHANGED), so it has its turn before them.
 */
export default defineConfig({
  test: {
    maxConcurrency: AT_A_TIME,
    sequence: { sequencer: LongestFirst },
    projects: [
      project('unit', 1, 20 * SECOND_MS, { include: ['*'], exclude: LONG, maxWorkers: AT_A_TIME }),
      project('simulation', 2, 180 * SECOND_MS, { include: ['simulation'], maxWorkers: AT_A_TIME }),
      project('contract', 2, 60 * SECOND_MS, { include: ['contract'], maxWorkers: AT_A_TIME, retry: RETRY }),
      project('browser', 2, 120 * SECOND_MS, { include: ['browser'], maxWorkers: AT_A_TIME, retry: RETRY }),
      project('system', 3, 180 * SECOND_MS, { include: ['system'], maxWorkers: AT_A_TIME, retry: RETRY }),
    ],
  },
});
