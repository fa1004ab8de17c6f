import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createPinoLogger } from '../../shared/adapters/pino-logger.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { Run } from '../../shared/cli/command-table.ts';
import { UsageError } from '../../shared/cli/errors.ts';
import { pingFromOptions } from '../../shared/cli/ping-from-options.ts';
import { abortOnStopSignal } from '../../shared/cli/shutdown.ts';
import { checkOutputFile, writeRecording } from '../../shared/cli/write-recording.ts';
import { type Connection, connectionKey } from '../../shared/domain/connection.ts';
import { formatDuration } from '../../shared/domain/duration.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';
import { startEmbeddedLab } from './embedded-lab.ts';
import type { Lab, LabOptions } from './lab.ts';
import { startLabPage } from './lab-page.ts';
import { watchLab } from './lab-session.ts';
import { runScenario, type ScenarioReport } from './run-scenario.ts';
import { readScenario, type Scenario } from './scenario.ts';

/** A scenario on a slow machine gets this much longer for each expectation. */
const SCENARIO_GRACE_MS = 10_000;
const NOTABLY_LATE_MS = 1_000;

/** Exit code 1 if the scenario's expectations were not all met, or if observations were left undelivered. */
export const run: Run<'lab'> = async (options) => {
  const log = createPinoLogger({ level: options.logLevel });
  if (options.exportFile !== undefined) await checkOutputFile(options.exportFile);
  const scenario = options.scenarioFile === undefined ? undefined : await readScenario(options.scenarioFile);
  const labOptions = labOptionsOf(options, scenario, log);
  const stopped = abortOnStopSignal(log);
  const lab = await startLab(options, labOptions);
  const over = new AbortController();
  const timer =
    options.durationMs === undefined ? undefined : systemClock.after(options.durationMs, () => over.abort());
  const signal = AbortSignal.any([stopped, over.signal]);
  const screen = { out: options.json ? process.stderr : process.stdout, input: process.stdin };
  const tunnels = scenario?.tunnels ?? options.labTunnels;
  let report: ScenarioReport | undefined;
  try {
    const page = options.ui
      ? await startLabPage(lab, { clock: systemClock, bind: options.uiBindAddress, signal, settings: labOptions })
      : undefined;
    const watching = watchLab(lab, screen, {
      ...{ clock: systemClock, tunnels, signal, quit: () => over.abort() },
      ...(page && { pageUrl: page.url }),
    });
    if (scenario !== undefined) {
      report = await play(lab, scenario, signal);
      if (options.durationMs === undefined) over.abort();
    }
    const connections = await watching;
    if (options.exportFile !== undefined) await record(options.exportFile, lab, connections, labOptions);
    const { unsent } = await lab.stop();
    if (scenario) process.stderr.write(outcomeOf(scenario, report));
    if (unsent > 0) process.stderr.write(`${unsent} observations could not be delivered\n`);
    if (options.json) {
      const result = {
        connections: connections.map(({ metadata, status = {} }) => ({
          ...{ namespace: metadata.namespace, name: metadata.name, status },
        })),
        ...(scenario && {
          scenario: { name: scenario.name, ok: report?.ok ?? false, failures: report?.failures ?? [] },
        }),
        unsent,
      };
      process.stdout.write(`${JSON.stringify(result)}\n`);
    }
    return (scenario && !report?.ok) || unsent > 0 ? 1 : 0;
  } finally {
    timer?.cancel();
    over.abort();
    await lab.stop();
  }
};

function labOptionsOf(options: Parameters<typeof run>[0], scenario: Scenario | undefined, log: Logger): LabOptions {
  return {
    tunnels: options.labTunnels,
    replicas: options.labReplicas,
    ping: pingFromOptions(options),
    functions: {
      updateStatusIntervalMs: options.pingUpdateStatusIntervalMs,
      gatewaySilentAfterMs: options.gatewaySilentAfterMs,
    },
    ...(scenario && {
      ...{ tunnels: scenario.tunnels, ping: scenario.ping, functions: scenario.functions },
      steppableClock: scenario.steps.some(({ action }) => 'step-clock' in action),
    }),
    log,
  };
}

async function startLab({ parts, natsReplicas }: Parameters<typeof run>[0], labOptions: LabOptions): Promise<Lab> {
  if (parts === 'embedded') {
    if (natsReplicas > 1)
      throw new UsageError(`--nats-replicas ${natsReplicas}: there is one bus in here; want --parts real`);
    return startEmbeddedLab(labOptions);
  }
  if (!existsSync(join(import.meta.dirname, '../servers/nats-server/go.mod')))
    throw new UsageError(
      '--parts real: the package has no servers to build; want a checkout: npm start -- --parts real',
    );
  const { startRealLab } = await import('./real-lab.ts');
  const startMs = performance.now();
  const onProgress = (step: string) => {
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
    process.stderr.write(`${seconds.padStart(5)} s  ${step}\n`);
  };
  const lab = await startRealLab({ ...labOptions, natsReplicas, onProgress });
  onProgress('the lab runs');
  return lab;
}

/** All that the lab's streams and Connections say, for `replay --file` and `explain --file`. */
async function record(
  path: string,
  lab: Lab,
  connections: readonly Connection[],
  { ping, functions }: LabOptions,
): Promise<void> {
  const { history } = await lab.sources();
  const { observations } = await writeRecording(path, {
    ...{ source: 'lab', history },
    settings: {
      pingIntervalMs: ping.intervalMs,
      pingLossThreshold: ping.lossThreshold,
      pingUpdateStatusIntervalMs: functions.updateStatusIntervalMs,
      gatewaySilentAfterMs: functions.gatewaySilentAfterMs,
    },
    connection: async (ref) => connections.find(({ metadata }) => connectionKey(metadata) === connectionKey(ref)),
  });
  process.stderr.write(`${path}: ${observations} observations; see wg-keepalive replay --file ${path}\n`);
}

function outcomeOf({ name, expectations }: Scenario, report: ScenarioReport | undefined): string {
  if (report === undefined) return `scenario ${name}: ended before its expectations were looked at\n`;
  const { ok, failures, lateMs } = report;
  const verdict = ok ? `all ${expectations.length} expectations were met` : failures.join(`\nscenario ${name}: `);
  const latestMs = Math.round(Math.max(0, ...lateMs));
  const late = `, the latest ${formatDuration(latestMs)} after its time: a busy machine is granted ${formatDuration(SCENARIO_GRACE_MS)}`;
  return `scenario ${name}: ${verdict}${ok && latestMs >= NOTABLY_LATE_MS ? late : ''}\n`;
}

/** Ends early, without a report, when the lab does. */
async function play(lab: Lab, scenario: Scenario, signal: AbortSignal): Promise<ScenarioReport | undefined> {
  try {
    return await runScenario(lab, scenario, { clock: systemClock, signal, graceMs: SCENARIO_GRACE_MS });
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}
