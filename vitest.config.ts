import { configDefaults, defineConfig } from 'vitest/config';

const SECOND_MS = 1_000;
/** `simulation` runs hundreds of simulated worlds; the others start real servers, namespaces, programs and browsers. */
const LONG = ['simulation', 'contract', 'system', 'browser'];

type Shape = {
  readonly include: readonly string[];
  readonly exclude?: readonly string[];
  readonly maxWorkers?: number;
};

/** @param timeoutMs - a bound, not an expectation: a machine under load is slow, and what hangs must end all the same */
function project(name: string, groupOrder: number, timeoutMs: number, shape: Shape) {
  const { include, exclude = [], maxWorkers } = shape;
  return {
    test: {
      ...{ name, testTimeout: timeoutMs, hookTimeout: timeoutMs, sequence: { groupOrder } },
      expect: { poll: { timeout: timeoutMs / 2 } },
      include: include.map((folder) => `test/${folder}/**/*.test.ts`),
      exclude: [...configDefaults.exclude, ...exclude.map((folder) => `test/${folder}/**`)],
      ...(maxWorkers !== undefined && { maxWorkers }),
    },
  };
}

/** Cheap ones first. System suites mostly wait, in servers, ports and namespaces of their own: two files at a time. */
export default defineConfig({
  test: {
    maxConcurrency: 2,
    projects: [
      project('unit', 0, 20 * SECOND_MS, { include: ['*'], exclude: LONG }),
      project('simulation', 1, 180 * SECOND_MS, { include: ['simulation'] }),
      project('contract', 2, 60 * SECOND_MS, { include: ['contract'], maxWorkers: 1 }),
      project('system', 3, 180 * SECOND_MS, { include: ['system'], maxWorkers: 2 }),
      project('browser', 4, 120 * SECOND_MS, { include: ['browser'], maxWorkers: 1 }),
    ],
  },
});
