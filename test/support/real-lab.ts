import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFailed } from 'vitest';
import { LAB_GATEWAYS } from '../../infra/lab/lab.ts';
import { type RealLab, type RealLabOptions, startRealLab } from '../../infra/lab/real-lab.ts';
import { runScenario } from '../../infra/lab/run-scenario.ts';
import { type Expectation, readScenario, type Scenario } from '../../infra/lab/scenario.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type ConnectionValue, connectionKey, type TunnelEntry } from '../../shared/domain/connection.ts';
import { GATEWAY_MODES, type GatewayMode, interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import { connectionWrites } from './audit-log.ts';
import { eventually } from './eventually.ts';
import type { Need } from './real-parts.ts';
import { silentLogger } from './silent-logger.ts';

export const REAL_LAB_NEEDS: readonly Need[] = [
  ...(['root', 'netns', 'tun', 'wireguard-go', 'nft', 'nats-server', 'etcd', 'kube-apiserver'] as const),
];
/** A machine under load is slow; no test passes because of a time. */
export const GRACE_MS = 60_000;
const scenarioFolder = join(import.meta.dirname, '../../infra/lab/scenarios');

/** One lab for all tests of a suite; its logs stay if a test fails. */
export function labOfSuite(options: () => Promise<Omit<RealLabOptions, 'log'>>) {
  let lab: RealLab | undefined;
  let failed = false;
  beforeAll(async () => {
    lab = await startRealLab({ ...(await options()), log: silentLogger });
  });
  beforeEach(() => {
    onTestFailed(() => {
      failed = true;
    });
  });
  const stop = () => lab?.stop({ keepLogs: failed });
  afterAll(async () => {
    await stop();
    if (failed) console.error(`logs of the lab's processes: ${lab?.folder}`);
  });
  return {
    stop,
    get lab() {
      return lab ?? expect.fail('the lab did not start');
    },
  };
}

export function scenario(name: string): Promise<Scenario> {
  return readScenario(join(scenarioFolder, `${name}.yaml`));
}

export async function carryOut(lab: RealLab, scenario: Pick<Scenario, 'steps' | 'expectations'>): Promise<void> {
  const report = await runScenario(lab, scenario, { clock: systemClock, graceMs: GRACE_MS });
  expect(report.failures).toEqual([]);
}

/** Waits until both Connections have this value, and their tunnels, in the order of the interfaces, these. */
export function reaches(lab: RealLab, value: ConnectionValue, values: readonly ConnectionValue[]): Promise<void> {
  const tunnels = Object.fromEntries(values.map((tunnelValue, index) => [interfaceIdOf(index), tunnelValue]));
  const expectation: Expectation = { byMs: 0, connections: 'all', value, tunnels };
  return carryOut(lab, { steps: [], expectations: [expectation] });
}

/** A tunnel's entry in each Connection. */
export async function entries(lab: RealLab, interfaceId: string): Promise<TunnelEntry[]> {
  const connections = await lab.connections();
  return connections.flatMap(
    ({ status }) => status?.tunnels?.filter(({ interfaceID }) => interfaceID === interfaceId) ?? [],
  );
}

/** The values that were written of a tunnel, repetitions left out, by side. */
export async function transitions(lab: RealLab, interfaceId: string): Promise<Record<GatewayMode, ConnectionValue[]>> {
  const writes = await connectionWrites(lab.api.auditLogFile ?? '');
  const of = (side: GatewayMode) => {
    const gateway = LAB_GATEWAYS.find(({ mode }) => mode === side) ?? expect.fail(side);
    const key = connectionKey({ namespace: gateway.namespace, name: `gw-${gateway.name}` });
    return writes
      .filter(({ connection, code }) => connection === key && code === 200)
      .flatMap(({ status }) => status?.tunnels?.filter(({ interfaceID }) => interfaceID === interfaceId) ?? [])
      .map((entry) => entry.value)
      .filter((value, index, values) => value !== values[index - 1]);
  };
  return { server: of('server'), client: of('client') };
}

/** Waits until both gateways have the tunnel up (1) or down (0), whatever the status says. */
export async function seenByGateways(lab: RealLab, interfaceId: string, up: 0 | 1): Promise<void> {
  for (const side of GATEWAY_MODES) {
    await eventually(
      async () => (await metric(lab, side, 'wg_keepalive_tunnel_up', interfaceId)) === up,
      `${interfaceId} ${up === 1 ? 'up' : 'down'} at ${side}`,
      GRACE_MS,
    );
  }
}

/** A sample of one interface's series, NaN where there is none. */
export async function metric(
  lab: RealLab,
  side: GatewayMode,
  name: string,
  interfaceId: string,
  label = '',
): Promise<number> {
  const lines = (await lab.gatewayMetrics(side)).split('\n');
  const line = lines.find(
    (candidate) =>
      candidate.startsWith(`${name}{`) && candidate.includes(`"${interfaceId}"`) && candidate.includes(label),
  );
  return Number(line?.slice(line.lastIndexOf(' ')) ?? Number.NaN);
}
