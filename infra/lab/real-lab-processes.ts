import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { CATALOG } from '../../functions/catalog.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { onFreePorts } from '../servers/free-port.ts';
import { RunningServer, type ServerSpec } from '../servers/running-server.ts';
import type { BusAccess } from './bus-access.ts';
import { LAB_GATEWAYS, type LabOptions } from './lab.ts';
import { functionFlags, gatewayFlags, type RealGateway, wgKeepalive } from './wg-keepalive-process.ts';
import type { WireguardNetwork } from './wireguard-network.ts';

type Surroundings = {
  /** Gets the log of every process. */
  readonly folder: string;
  readonly network: WireguardNetwork;
  readonly bus: BusAccess;
  readonly environment: NodeJS.ProcessEnv;
  /** What gateways have besides. */
  readonly gatewayEnvironment: NodeJS.ProcessEnv;
};

const METRICS_PORT = 8_089;
const LOOPBACK = '127.0.0.1';
const READY_TIMEOUT_MS = 60_000;
/** What a RunningServer removes in the end: these have no data, and their logs are the lab's. */
const NO_FOLDER = '/nonexistent';

/** Both gateways and every replica of every function, a child process each, none of which outlives this one. */
export class RealLabProcesses {
  readonly #options: LabOptions;
  readonly #around: Surroundings;
  readonly #identities: readonly RealGateway[] = LAB_GATEWAYS.map((gateway) => ({ ...gateway, uid: randomUUID() }));
  readonly #gateways = new Map<GatewayMode, RunningServer>();
  readonly #replicas = new Map<string, RunningServer[]>();

  constructor(options: LabOptions, around: Surroundings) {
    this.#options = options;
    this.#around = around;
  }

  /** @throws NotReadyError with the end of its log if one of them does not start */
  async start(tunnels: number): Promise<void> {
    await settleAll([...this.#startReplicas(), this.startGateways(tunnels)]);
  }

  async startGateways(tunnels: number): Promise<void> {
    await settleAll(this.#identities.map((gateway) => this.#startGateway(gateway, tunnels)));
  }

  async stopGateways(): Promise<void> {
    await Promise.all([...this.#gateways.values()].map((gateway) => gateway.stop()));
  }

  /** Kills the replica that was started longest ago, and starts it anew. */
  async crash(functionName: string): Promise<void> {
    const replicas = this.#replicas.get(functionName);
    const [oldest] = replicas ?? [];
    if (oldest === undefined) {
      throw new Error(`there is no function "${functionName}": want one of ${[...this.#replicas.keys()].join(', ')}`);
    }
    replicas?.push(...replicas.splice(0, 1)); // the next crash hits another
    await oldest.kill();
    await oldest.restart();
  }

  async restartGateway(side: GatewayMode): Promise<void> {
    const gateway = this.#gateways.get(side);
    await gateway?.kill();
    await gateway?.restart();
  }

  /** Replicas of a function, or a side's gateway. */
  of(what: string): readonly RunningServer[] {
    return this.#replicas.get(what) ?? [...this.#gateways].flatMap(([side, gateway]) => (side === what ? gateway : []));
  }

  functions(): readonly { readonly name: string; readonly replicas: number }[] {
    return [...this.#replicas].map(([name, { length: replicas }]) => ({ name, replicas }));
  }

  /** Where the gateway of this side serves its metrics. */
  gatewayAddress(side: GatewayMode): string {
    return `${this.#around.network.address(side)}:${METRICS_PORT}`;
  }

  /**
   * Gateways first: what they have yet to say still finds somebody.
   *
   * @returns how many observations no run of them could deliver, and whether a process had ended by itself
   */
  async stop(): Promise<{ readonly unsent: number; readonly died: boolean }> {
    const replicas = [...this.#replicas.values()].flat();
    const died = [...this.#gateways.values(), ...replicas].some((process) => !process.isRunning);
    await this.stopGateways();
    await Promise.all(replicas.map((replica) => replica.stop()));
    const [ofServer, ofClient] = await Promise.all([
      unsentBy(this.#logFile('server')),
      unsentBy(this.#logFile('client')),
    ]);
    return { unsent: ofServer + ofClient, died };
  }

  #startReplicas(): Promise<void>[] {
    return CATALOG.flatMap(({ manifest: { name } }) => {
      const replicas: RunningServer[] = [];
      this.#replicas.set(name, replicas);
      return Array.from({ length: this.#options.replicas }, async (_, index) => {
        replicas.push(await this.#startReplica(name, index));
      });
    });
  }

  #startReplica(name: string, index: number): Promise<RunningServer> {
    const { folder, bus, environment: env } = this.#around;
    return onFreePorts(1, LOOPBACK, ([port = 0]) => {
      const metrics = `${LOOPBACK}:${port}`;
      const flags = [...functionFlags(this.#options.functions), ...bus.flagsOf({ role: 'function', name })];
      return RunningServer.start(
        {
          ...{ name: `${name} ${index}`, logFile: `${folder}/${name}-${index}.log`, env },
          ...wgKeepalive('function', name, ...flags, `--metrics-bind-address=${metrics}`),
          ...readiness(`http://${metrics}/readyz`),
        },
        NO_FOLDER,
      );
    });
  }

  async #startGateway(gateway: RealGateway, tunnels: number): Promise<void> {
    const { mode, namespace } = gateway;
    const { network, bus, environment, gatewayEnvironment } = this.#around;
    const metrics = this.gatewayAddress(mode);
    const settings = { tunnels, ping: this.#options.ping };
    const flags = [...gatewayFlags(gateway, settings), ...bus.flagsOf({ role: 'gateway', namespace })];
    const { command, args } = wgKeepalive('gateway', ...flags, `--metrics-bind-address=${metrics}`);
    const started = await RunningServer.start(
      {
        ...{ name: `gateway ${gateway.name}`, logFile: this.#logFile(mode) },
        env: { ...environment, ...gatewayEnvironment },
        ...network.commandLine(mode, command, args),
        ...readiness(`http://${metrics}/healthz`),
      },
      NO_FOLDER,
    );
    this.#gateways.set(mode, started);
  }

  #logFile(mode: GatewayMode): string {
    return `${this.#around.folder}/gateway-${mode}.log`;
  }
}

function readiness(url: string): Pick<ServerSpec, 'probe' | 'readyTimeoutMs'> {
  return {
    probe: async (signal) => (await fetch(url, { signal })).ok || undefined,
    readyTimeoutMs: READY_TIMEOUT_MS,
  };
}

/** Waits for all, so that none is still starting when the others are ended. */
async function settleAll(starting: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(starting);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

/** How many observations the gateway's runs could not deliver: each says so as its last words. */
async function unsentBy(logFile: string): Promise<number> {
  const log = await readFile(logFile, 'utf8').catch(() => ''); // it may not have got as far as to start
  return [...log.matchAll(/"unsent":(\d+)/g)].reduce((total, [, unsent]) => total + Number(unsent), 0);
}
