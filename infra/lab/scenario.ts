/**
 * A scenario: what happens to a lab's tunnels and functions, and which states its Connections must go through.
 * Read from a YAML file by {@link readScenario}, carried out by `runScenario` of `run-scenario.ts`.
 */
import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { UsageError } from '../../shared/cli/errors.ts';
import { OPTIONS } from '../../shared/cli/options.ts';
import type { ConnectionValue } from '../../shared/domain/connection.ts';
import { formatDuration, parseDuration } from '../../shared/domain/duration.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import type { PingSettings } from '../../shared/domain/ping-settings.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import { type Action, tunnelsOf } from './lab-action.ts';
import { type ScenarioDocument, type SettingFlag, scenarioFaults, type settingOptions } from './scenario-schema.ts';

export type Scenario = {
  readonly name: string;
  readonly description: string;
  /** Tunnels at the start. */
  readonly tunnels: number;
  /** The file's settings over the defaults. */
  readonly ping: PingSettings;
  readonly functions: FunctionSettings;
  /** In the order of `atMs`. */
  readonly steps: readonly ScenarioStep[];
  /** States to go through, in the order of `byMs`; the last one must be the state at the end. */
  readonly expectations: readonly Expectation[];
};

export type ScenarioStep = { readonly atMs: number; readonly action: Action };

export type Expectation = {
  readonly byMs: number;
  /** `NAMESPACE/NAME` of the Connections that are meant. */
  readonly connections: 'all' | readonly string[];
  readonly value: ConnectionValue;
  /** Exactly these tunnels, each with this value. */
  readonly tunnels: Readonly<Record<string, ConnectionValue>>;
  /** Looked at when `byMs` has come, not before: no tunnel has changed its value since the expectation before was met. */
  readonly steady?: boolean;
};

/** @throws UsageError that names the file, the field, its value and what is wanted */
export async function readScenario(file: string): Promise<Scenario> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`scenario ${file}: cannot be read: ${(error as Error).message}`, { cause: error });
  }
  return parseScenario(text, file);
}

/**
 * @param file - only for messages
 * @throws UsageError as {@link readScenario}
 */
export function parseScenario(text: string, file: string): Scenario {
  const document = parsed(text, file);
  const faults = [...scenarioFaults(document)];
  if (faults.length > 0) throw refused(file, faults);
  const checked = document as ScenarioDocument;
  const scenario = {
    name: checked.name,
    description: checked.description,
    tunnels: checked.tunnels,
    ...settingsOf(checked.settings ?? {}),
    steps: (checked.steps ?? []).map(({ at, ...action }) => ({ atMs: milliseconds(at), action: action as Action })),
    expectations: checked.expectations.map(({ by, connections = 'all', value, tunnels, steady }) => ({
      ...{ byMs: milliseconds(by), connections, value, tunnels },
      ...(steady !== undefined && { steady }),
    })),
  };
  const contradictions = [...contradictionsOf(scenario)];
  if (contradictions.length > 0) throw refused(file, contradictions);
  return scenario;
}

function parsed(text: string, file: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw refused(file, [`is no YAML: ${(error as Error).message.split('\n')[0]}`]); // the rest is a drawing
  }
}

function refused(file: string, faults: readonly string[]): UsageError {
  return new UsageError(`scenario ${file}: ${faults.join('; ')}`);
}

/** The schema has seen that it is one. */
function milliseconds(duration: string): number {
  return parseDuration(duration) as number;
}

function settingsOf(settings: Partial<Record<SettingFlag, unknown>>): {
  readonly ping: PingSettings;
  readonly functions: FunctionSettings;
} {
  const value = <Key extends keyof typeof settingOptions>(key: Key): (typeof OPTIONS)[Key]['default'] => {
    const option = OPTIONS[key];
    const given = settings[option.flag as SettingFlag];
    return (
      given === undefined ? option.default : option.kind.parse(String(given))
    ) as (typeof OPTIONS)[Key]['default'];
  };
  const ping = {
    enabled: value('pingEnabled'),
    port: OPTIONS.pingPort.default,
    intervalMs: value('pingIntervalMs'),
    lossThreshold: value('pingLossThreshold'),
    updateStatusIntervalMs: value('pingUpdateStatusIntervalMs'),
    bufferSizeBytes: value('pingBufferSizeBytes'),
  };
  const { updateStatusIntervalMs } = ping;
  return { ping, functions: { updateStatusIntervalMs, gatewaySilentAfterMs: value('gatewaySilentAfterMs') } };
}

/** What a schema cannot say. */
function* contradictionsOf(scenario: Scenario): Generator<string> {
  let tunnels = scenario.tunnels;
  let previousMs = 0;
  for (const [index, { atMs, action }] of scenario.steps.entries()) {
    const field = `steps[${index}]`;
    if (atMs < previousMs)
      yield `${field}.at: ${formatDuration(atMs)} is before the step above it, want steps in order`;
    previousMs = atMs;
    if ('scale' in action) tunnels = action.scale;
    const known = Array.from({ length: tunnels }, (_, tunnel) => interfaceIdOf(tunnel));
    for (const interfaceId of tunnelsOf(action)) {
      if (known.includes(interfaceId)) continue;
      yield `${field}: there is no "${interfaceId}" by then, want one of ${known.join(', ')}`;
    }
  }
  let previousByMs = 0;
  for (const [index, { byMs }] of scenario.expectations.entries()) {
    if (byMs < previousByMs)
      yield `expectations[${index}].by: ${formatDuration(byMs)} is before the one above it, want them in order`;
    previousByMs = byMs;
  }
  const lastStepMs = scenario.steps.at(-1)?.atMs ?? 0;
  if (previousByMs < lastStepMs) {
    yield `expectations: the last one is by ${formatDuration(previousByMs)}, want one after the last step (${formatDuration(lastStepMs)}): the final state`;
  }
}
