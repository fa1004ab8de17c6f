/**
 * The lab on real parts (root): nats-server, etcd, kube-apiserver, WireGuard tunnels between two network namespaces, both
 * gateways in there, and every replica of every function as a process of its own.
 *
 * Exports {@link startRealLab}, {@link RealLab} (a `Lab` with `network`, `nats`, `api`, `gatewayMetrics`), {@link RealLabOptions}.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CATALOG } from '../../functions/catalog.ts';
import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type Connection, connectionNameOf } from '../../shared/domain/connection.ts';
import { onFreePorts } from '../servers/free-port.ts';
import { type KubeApiserver, launchKubeApiserver } from '../servers/launch-kube-apiserver.ts';
import { launchNats, type NatsServer } from '../servers/launch-nats.ts';
import { RunningServer, type ServerSpec } from '../servers/running-server.ts';
import { LAB_GATEWAYS, type Lab, type LabOptions } from './lab.ts';
import { createTenant } from './lab-tenant.ts';
import {
  environmentFor,
  functionFlags,
  gatewayFlags,
  processFlags,
  type RealGateway,
  runToEnd,
  wgKeepalive,
} from './wg-keepalive-process.ts';
import { type NetworkSide, startWireguardNetwork, type WireguardNetwork } from './wireguard-network.ts';

export type RealLabOptions = LabOptions & {
  /** Called when the tunnels are there and no gateway runs yet. */
  readonly prepare?: (network: WireguardNetwork) => Promise<void>;
};

type Parts = {
  /** Of the logs. */
  readonly folder: string;
  readonly network: WireguardNetwork;
  readonly nats: NatsServer;
  readonly api: KubeApiserver;
  readonly client: KubernetesClient;
};

const METRICS_PORT = 8_089;
const LOOPBACK = '127.0.0.1';
const READY_TIMEOUT_MS = 60_000;
/** What a RunningServer removes in the end: these have no data, and their logs are the lab's. */
const NO_FOLDER = '/nonexistent';

/** @throws StartError that names what the machine lacks; Error with the end of the log of what did not start */
export async function startRealLab(options: RealLabOptions): Promise<RealLab> {
  await using cleanUp = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-lab-'));
  const network = cleanUp.use(await startWireguardNetwork({ tunnels: options.tunnels, logFolder: folder }));
  const { host } = network;
  const servers = [
    launchNats({ host }).then((server) => cleanUp.use(server)),
    launchKubeApiserver({ host, audit: true }).then((server) => cleanUp.use(server)),
  ] as const;
  await Promise.allSettled(servers); // both have ended or been put on the stack before the stack may unwind
  const [nats, api] = await Promise.all(servers);
  const client = await KubernetesClient.connect({ clock: systemClock, kubeconfig: api.kubeconfig });
  cleanUp.defer(() => client.close());
  const lab = new RealLab(options, { folder, network, nats, api, client }, cleanUp.move());
  try {
    await lab.start();
  } catch (error) {
    options.log.error({ folder }, 'the lab does not start; its logs are kept');
    await lab.stop({ keepLogs: true });
    throw error;
  }
  return lab;
}

/** Both gateways and all replicas, as child processes that do not outlive this one. */
export class RealLab implements Lab {
  readonly network: WireguardNetwork;
  readonly nats: NatsServer;
  readonly api: KubeApiserver;
  /** Every process's log, a file each. */
  readonly folder: string;
  readonly #options: RealLabOptions;
  readonly #client: KubernetesClient;
  readonly #cleanUp: AsyncDisposableStack;
  readonly #gateways = LAB_GATEWAYS.map((gateway) => ({ ...gateway, uid: randomUUID() }));
  readonly #running = new Map<NetworkSide, RunningServer>();
  readonly #replicas = new Map<string, RunningServer[]>();
  #tunnels: number;
  #stopped: Promise<{ readonly unsent: number }> | undefined;

  /** @see {@link startRealLab} */
  constructor(options: RealLabOptions, parts: Parts, cleanUp: AsyncDisposableStack) {
    this.network = parts.network;
    this.nats = parts.nats;
    this.api = parts.api;
    this.folder = parts.folder;
    this.#options = options;
    this.#client = parts.client;
    this.#cleanUp = cleanUp;
    this.#tunnels = options.tunnels;
  }

  /** @internal */
  async start(): Promise<void> {
    await runToEnd({
      ...{ name: 'wg-keepalive setup', logFile: `${this.folder}/setup.log`, env: this.#environment() },
      ...wgKeepalive('setup', '--nats-url', this.nats.url),
    });
    await Promise.all(this.#gateways.map((gateway) => createTenant(this.#client, gateway)));
    await this.#options.prepare?.(this.network);
    await settleAll([...this.#startReplicas(), ...this.#gateways.map((gateway) => this.#startGateway(gateway))]);
  }

  async connections(): Promise<readonly Connection[]> {
    const store = new KubernetesConnectionStore(this.#client);
    const found = await Promise.all(
      LAB_GATEWAYS.map(({ namespace, name }) => store.get({ namespace, name: connectionNameOf(name) })),
    );
    return found.filter((connection) => connection !== undefined);
  }

  cut(interfaceId: string): Promise<void> {
    return this.network.cut(interfaceId);
  }

  restore(interfaceId: string): Promise<void> {
    return this.network.restore(interfaceId);
  }

  /** As a deployment does it: the gateways end, and others with another `--num-interfaces` take their place. */
  async scale(tunnels: number): Promise<void> {
    await Promise.all([...this.#running.values()].map((gateway) => gateway.stop()));
    await this.network.scale(tunnels);
    this.#tunnels = tunnels;
    await settleAll(this.#gateways.map((gateway) => this.#startGateway(gateway)));
  }

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

  /** What the gateway of this side shows at `/metrics`. */
  async gatewayMetrics(side: NetworkSide): Promise<string> {
    const response = await fetch(`http://${this.network.address(side)}:${METRICS_PORT}/metrics`);
    return response.text();
  }

  /** @param options - `keepLogs` leaves {@link folder} behind */
  stop({ keepLogs = false } = {}): Promise<{ readonly unsent: number }> {
    this.#stopped ??= this.#stop(keepLogs);
    return this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(keepLogs: boolean): Promise<{ readonly unsent: number }> {
    const gateways = [...this.#running.values()];
    const replicas = [...this.#replicas.values()].flat();
    const died = [...gateways, ...replicas].some((process) => !process.isRunning);
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await Promise.all(replicas.map((replica) => replica.stop()));
    const [ofServer, ofClient] = await Promise.all([
      unsentBy(this.#logFile('server')),
      unsentBy(this.#logFile('client')),
    ]);
    await this.#cleanUp.disposeAsync();
    if (died && !keepLogs) {
      this.#options.log.error({ folder: this.folder }, 'a process of the lab ended by itself; all logs are kept');
    } else if (!keepLogs) await rm(this.folder, { recursive: true, force: true });
    return { unsent: ofServer + ofClient };
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
    return onFreePorts(1, LOOPBACK, ([port = 0]) => {
      const metrics = `${LOOPBACK}:${port}`;
      const flags = [...functionFlags(this.#options.functions), ...processFlags(this.nats.url, metrics)];
      return RunningServer.start(
        {
          ...{ name: `${name} ${index}`, logFile: `${this.folder}/${name}-${index}.log`, env: this.#environment() },
          ...wgKeepalive('function', name, ...flags),
          ...readiness(`http://${metrics}/readyz`),
        },
        NO_FOLDER,
      );
    });
  }

  async #startGateway(gateway: RealGateway): Promise<void> {
    const { mode } = gateway;
    const metrics = `${this.network.address(mode)}:${METRICS_PORT}`;
    const settings = { tunnels: this.#tunnels, ping: this.#options.ping };
    const flags = [...gatewayFlags(gateway, settings), ...processFlags(this.nats.url, metrics)];
    const { command, args } = wgKeepalive('gateway', ...flags);
    const started = await RunningServer.start(
      {
        ...{ name: `gateway ${gateway.name}`, logFile: this.#logFile(mode), env: this.#environment() },
        ...this.network.commandLine(mode, command, args),
        ...readiness(`http://${metrics}/healthz`),
      },
      NO_FOLDER,
    );
    this.#running.set(mode, started);
  }

  #environment(): NodeJS.ProcessEnv {
    return environmentFor(this.api.kubeconfig);
  }

  #logFile(mode: NetworkSide): string {
    return `${this.folder}/gateway-${mode}.log`;
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
