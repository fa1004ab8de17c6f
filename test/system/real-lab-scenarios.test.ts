import { glob } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { afterAll, test } from 'vitest';
import { type RealLab, type RealLabOptions, startRealLab } from '../../infra/lab/real-lab.ts';
import type { Scenario } from '../../infra/lab/scenario.ts';
import { carryOut, REAL_LAB_NEEDS, scenario } from '../support/real-lab.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const folder = join(import.meta.dirname, '../../infra/lab/scenarios');
const names: string[] = [];
for await (const file of glob(join(folder, '*.yaml'))) names.push(basename(file, '.yaml'));
/** These are part of test/system/real-lab.test.ts. */
const ELSEWHERE = ['one-tunnel-cut', 'scale-4-2'];
const scenarios = await Promise.all(
  names.toSorted().flatMap((name) => (ELSEWHERE.includes(name) ? [] : scenario(name))),
);
/** With the start of a lab, and with the scenario before it. */
const TIMEOUT_MS = 360_000;

/** One lab for scenarios of the same settings, one after another: to start a lab takes as long as to run one. */
class LabInTurn {
  readonly #options: RealLabOptions;
  #uses: number;
  #lab: Promise<RealLab> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(of: readonly Scenario[]) {
    const [{ tunnels, ping, functions }] = of as [Scenario];
    const steppableClock = of.some(({ steps }) => steps.some(({ action }) => 'step-clock' in action));
    this.#options = { tunnels, ping, functions, steppableClock, replicas: 1, log: silentLogger };
    this.#uses = of.length;
  }

  run(wanted: Scenario): Promise<void> {
    const done = this.#last.then(() => this.#run(wanted));
    this.#last = done.catch(() => {});
    return done;
  }

  async stop(keepLogs = false): Promise<void> {
    const lab = this.#lab;
    this.#lab = undefined;
    await (await lab)?.stop({ keepLogs });
  }

  /** A scenario ends as it began, but for the number of tunnels; after one that fails, the next gets another lab. */
  async #run(wanted: Scenario): Promise<void> {
    let isDone = false;
    try {
      this.#lab ??= startRealLab(this.#options);
      const lab = await this.#lab;
      if (lab.state().tunnels !== wanted.tunnels) await lab.scale(wanted.tunnels);
      await carryOut(lab, wanted);
      isDone = true;
    } finally {
      this.#uses -= 1;
      if (!isDone || this.#uses === 0) await this.stop(!isDone).catch(() => {}); // what failed says why
    }
  }
}

await describeReal('scenarios on real parts', [...REAL_LAB_NEEDS, 'faketime'], () => {
  const settingsOf = ({ tunnels, ping, functions }: Scenario) => JSON.stringify({ tunnels, ping, functions });
  const labs = new Map([...Map.groupBy(scenarios, settingsOf)].map(([key, group]) => [key, new LabInTurn(group)]));
  afterAll(() => Promise.all([...labs.values()].map((lab) => lab.stop())));

  // Labs side by side where vitest.config.ts lets them: a scenario waits more than it works.
  test.concurrent.each(scenarios)('$name', { timeout: TIMEOUT_MS }, async (wanted) => {
    await labs.get(settingsOf(wanted))?.run(wanted);
  });
});
