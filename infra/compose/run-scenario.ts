/**
 * `node infra/compose/run-scenario.ts NAME`: carries a scenario of infra/lab/scenarios out on the lab of docker-compose.yml,
 * from within the network of its server's gateway. Exit code 1 if the Connections do not go through the expected states,
 * 2 if it is no scenario for this lab.
 */
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { StartError, UsageError } from '../../shared/cli/errors.ts';
import { OPTIONS } from '../../shared/cli/options.ts';
import { packagePath } from '../../shared/cli/package-root.ts';
import { parseOptions } from '../../shared/cli/parse-options.ts';
import { ComposedLab } from '../lab/composed-lab.ts';
import { actionWords } from '../lab/lab-action.ts';
import { runScenario } from '../lab/run-scenario.ts';
import { readScenario, type Scenario } from '../lab/scenario.ts';

/** What its actions are, and nothing else can be done from here. */
const POSSIBLE = ['cut', 'restore', 'lose'];
/** On a slow machine each expectation gets this much longer. */
const GRACE_MS = 20_000;

/** @throws UsageError that says what the scenario and the lab do not have in common */
function checkFits(scenario: Scenario, lab: ReturnType<typeof labOptions>): void {
  const impossible = scenario.steps.flatMap(({ action }) =>
    Object.keys(action).filter((one) => !POSSIBLE.includes(one)),
  );
  if (impossible.length > 0) {
    throw new UsageError(
      `scenario ${scenario.name}: ${[...new Set(impossible)].join(', ')} cannot be done from here, only ${POSSIBLE.join(', ')}; ` +
        `npm start -- --scenario infra/lab/scenarios/${scenario.name}.yaml can`,
    );
  }
  const wanted = [
    ['labTunnels', scenario.tunnels],
    ['pingIntervalMs', scenario.ping.intervalMs],
    ['pingLossThreshold', scenario.ping.lossThreshold],
    ['pingUpdateStatusIntervalMs', scenario.ping.updateStatusIntervalMs],
  ] as const;
  const other = wanted.filter(([key, value]) => lab[key] !== value);
  if (other.length === 0) return;
  const variables = other.map(([key, value]) => {
    const { flag, kind } = OPTIONS[key];
    return `${flag.toUpperCase().replaceAll('-', '_')}=${kind.format(value)}`;
  });
  throw new UsageError(
    `scenario ${scenario.name} is for other settings: ${variables.join(' ')} docker compose up -d, then try again`,
  );
}

function labOptions() {
  return parseOptions('lab', [], process.env).options;
}

async function main([name, ...others]: readonly string[]): Promise<number> {
  if (name === undefined || others.length > 0)
    throw new UsageError('usage: run-scenario.ts NAME, of infra/lab/scenarios');
  const scenario = await readScenario(packagePath(`infra/lab/scenarios/${name}.yaml`));
  const options = labOptions();
  checkFits(scenario, options);
  // Who stops it gets the network back as it was.
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => stop.abort(new StartError(`scenario ${name}: stopped by ${signal}`)));
  }
  await using lab = await ComposedLab.open(options.labTunnels);
  const say = (line: string) => process.stdout.write(`scenario ${name}: ${line}\n`);
  say(scenario.description);
  const { ok, failures } = await runScenario(lab, scenario, {
    clock: systemClock,
    graceMs: GRACE_MS,
    signal: stop.signal,
    onStep: ({ action }) => say(actionWords(action)),
  });
  say(ok ? `all ${scenario.expectations.length} expectations were met` : failures.join('; '));
  return ok ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : (error as Error).stack}\n`);
  process.exitCode = 2;
}
