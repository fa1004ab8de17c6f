import { meanLatency } from '../../shared/domain/aggregate.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import { connectionKey, connectionNameOf } from '../../shared/domain/connection.ts';
import { formatDuration } from '../../shared/domain/duration.ts';
import type { Clock } from '../../shared/ports/clock.ts';
import { LAB_GATEWAYS, type ScenarioLab } from './lab.ts';
import { carryOut } from './lab-action.ts';
import type { Expectation, Scenario, ScenarioStep } from './scenario.ts';

export type RunScenarioOptions = {
  readonly clock: Clock;
  /** Told after each step. */
  readonly onStep?: (step: ScenarioStep) => void;
  readonly signal?: AbortSignal;
  /**
   * How much longer than its `by` an expectation may take, for machines under load; the scenario's time stands still
   * meanwhile, so no step comes early. @defaultValue 0
   */
  readonly graceMs?: number;
};

export type ScenarioReport = {
  readonly ok: boolean;
  /** Steps that were carried out. */
  readonly steps: readonly ScenarioStep[];
  /** When, in the scenario's time, each expectation was met; `undefined`: not in time. */
  readonly reachedMs: readonly (number | undefined)[];
  /** How much of the grace each of them took. */
  readonly lateMs: readonly number[];
  /** A sentence for each expectation that was not met: where, what is, what is wanted. */
  readonly failures: readonly string[];
};

const POLL_MS = 50;

/**
 * Carries out the steps at their times, and watches the Connections go through the expected states one after another.
 * Time stands still while a step is carried out, so real parts, which are slower, get as much time as embedded ones.
 * A step waits for the expectations that are due before it; the last expectation counts only once all steps are done.
 * Ends when all is done, at the latest at the last `by`.
 *
 * @throws whatever the lab throws, and the signal's reason
 */
export async function runScenario(
  lab: ScenarioLab,
  scenario: Pick<Scenario, 'steps' | 'expectations'>,
  options: RunScenarioOptions,
): Promise<ScenarioReport> {
  const { clock, onStep, signal, graceMs = 0 } = options;
  const steps: ScenarioStep[] = [];
  const reachedMs: (number | undefined)[] = [];
  const lateMs: number[] = [];
  const failures: string[] = [];
  let nowMs = 0;
  let overdueMs = 0;
  let transitions = new Set<string>();
  for (;;) {
    signal?.throwIfAborted();
    const step = scenario.steps[steps.length];
    const expectation = scenario.expectations[reachedMs.length];
    if (step === undefined && expectation === undefined) break;
    const stepIsDue = step !== undefined && step.atMs <= nowMs;
    const isFinal = reachedMs.length === scenario.expectations.length - 1;
    if (stepIsDue && (expectation === undefined || expectation.byMs > step.atMs)) {
      await carryOut(lab, step.action);
      steps.push(step);
      onStep?.(step);
      continue;
    }
    const startedMs = clock.monotonicMs();
    const isTooEarly = expectation?.steady === true && nowMs < expectation.byMs;
    if (expectation !== undefined && !isTooEarly && !(isFinal && step !== undefined)) {
      const connections = await lab.connections();
      const faults = [...differences(expectation, connections), ...changesSince(transitions, expectation, connections)];
      const isLate = nowMs >= expectation.byMs && overdueMs >= graceMs;
      if (faults.length === 0 || isLate) {
        reachedMs.push(faults.length === 0 ? nowMs : undefined);
        if (faults.length > 0) failures.push(`by ${formatDuration(expectation.byMs)}: ${faults.join('; ')}`);
        lateMs.push(overdueMs);
        overdueMs = 0;
        transitions = new Set(transitionsOf(connections));
        continue;
      }
    }
    await clock.sleep(POLL_MS, signal);
    const elapsedMs = clock.monotonicMs() - startedMs;
    const heldAtMs = expectation?.byMs ?? Number.POSITIVE_INFINITY;
    overdueMs += Math.max(0, nowMs + elapsedMs - heldAtMs);
    nowMs = Math.min(nowMs + elapsedMs, heldAtMs);
  }
  return { ok: failures.length === 0, steps, reachedMs, lateMs, failures };
}

const labConnections = LAB_GATEWAYS.map(({ namespace, name }) =>
  connectionKey({ namespace, name: connectionNameOf(name) }),
);

/** What keeps the Connections from being as expected, the rules about latencies included. */
function differences(expectation: Expectation, connections: readonly Connection[]): string[] {
  const keys = expectation.connections === 'all' ? labConnections : expectation.connections;
  return keys.flatMap((key) => {
    const connection = connections.find(({ metadata }) => connectionKey(metadata) === key);
    if (connection === undefined) return [`${key} does not exist`];
    return [...faultsOf(connection, expectation)].map((fault) => `${key}: ${fault}`);
  });
}

/** Each tunnel with the instant at which its value began. */
function transitionsOf(connections: readonly Connection[]): string[] {
  return connections.flatMap(({ metadata, status = {} }) =>
    (status.tunnels ?? []).map(
      ({ interfaceID, value, lastTransitionTime }) =>
        `${connectionKey(metadata)} ${interfaceID} is ${value} since ${lastTransitionTime ?? 'its listing'}`,
    ),
  );
}

/** What a steady state must not have: a value that came in between shows in the instant, however short it was. */
function changesSince(
  before: ReadonlySet<string>,
  { steady = false }: Expectation,
  connections: readonly Connection[],
): string[] {
  return steady ? transitionsOf(connections).filter((one) => !before.has(one)) : [];
}

function* faultsOf({ status = {} }: Connection, wanted: Expectation): Generator<string> {
  if (status.value !== wanted.value) yield `is ${status.value ?? 'without a value'}, want ${wanted.value}`;
  const tunnels = status.tunnels ?? [];
  for (const [interfaceId, value] of Object.entries(wanted.tunnels)) {
    const tunnel = tunnels.find(({ interfaceID }) => interfaceID === interfaceId);
    if (tunnel?.value !== value) yield `${interfaceId} is ${tunnel?.value ?? 'not listed'}, want ${value}`;
  }
  for (const { interfaceID, value, latency, reason } of tunnels) {
    if (!Object.hasOwn(wanted.tunnels, interfaceID)) yield `${interfaceID} is ${value}, want it not listed`;
    if (value !== 'Connected' && latency !== undefined) yield `${interfaceID} is ${value} with a latency`;
    if (value === 'Connected' && latency === undefined && reason !== 'Unmonitored') {
      yield `${interfaceID} is Connected without a latency`;
    }
  }
  const mean = status.value === 'Connected' ? meanLatency(tunnels)?.value : undefined;
  if (status.latency?.value !== mean) yield `latency is ${status.latency?.value ?? 'absent'}, want ${mean ?? 'none'}`;
}
