import { glob } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'vitest';
import { startRealLab } from '../../infra/lab/real-lab.ts';
import { carryOut, REAL_LAB_NEEDS, scenario } from '../support/real-lab.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const folder = join(import.meta.dirname, '../../infra/lab/scenarios');
const names: string[] = [];
for await (const file of glob(join(folder, '*.yaml'))) names.push(basename(file, '.yaml'));
/** These are part of test/system/real-lab.test.ts. */
const ELSEWHERE = ['one-tunnel-cut', 'scale-4-2'];

await describeReal('scenarios on real parts', [...REAL_LAB_NEEDS, 'faketime'], () => {
  // Side by side where vitest.config.ts lets them: a scenario waits more than it works.
  test.concurrent.each(names.toSorted().filter((name) => !ELSEWHERE.includes(name)))('%s', async (name) => {
    const wanted = await scenario(name);
    const steppableClock = wanted.steps.some(({ action }) => 'step-clock' in action);
    await using lab = await startRealLab({ ...wanted, steppableClock, replicas: 1, log: silentLogger });
    await carryOut(lab, wanted);
  });
});
