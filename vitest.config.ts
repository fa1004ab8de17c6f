import { defineConfig } from 'vitest/config';

/** Bounds, not expectations: a machine under load is slow, a test that hangs must end all the same. */
const SECOND_MS = 1_000;

function project(name: string, order: number, timeoutMs: number, folders: readonly string[], maxWorkers?: number) {
  return {
    test: {
      name,
      include: folders.map((folder) => `test/${folder}/**/*.test.ts`),
      testTimeout: timeoutMs,
      hookTimeout: timeoutMs,
      sequence: { groupOrder: order },
      ...(maxWorkers !== undefined && { maxWorkers }),
    },
  };
}

/** Cheap ones first. Suites on real parts run one file at a time: they measure, and share the machine's network. */
export default defineConfig({
  test: {
    projects: [
      project('unit', 0, 10 * SECOND_MS, ['domain', 'functions', 'cli', 'adapters', 'runtime', 'lab']),
      project('simulation', 1, 120 * SECOND_MS, ['simulation']),
      project('contract', 2, 60 * SECOND_MS, ['contract'], 1),
      project('system', 3, 180 * SECOND_MS, ['system'], 1),
    ],
  },
});
