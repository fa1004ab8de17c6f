/**
 * The lab on real parts (root): nats-server, etcd, kube-apiserver, WireGuard tunnels between two network namespaces, both
 * gateways in there, and every replica of every function as a process of its own.
 *
 * Exports {@link startRealLab}, {@link RealLab} (a `Lab` with `network`, `nats`, `api`, `gatewayMetrics`), {@link RealLabOptions}.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CATALOG } from '../../functions/catalog.ts';
import { KubernetesChangeFeed } from '../../shared/adapters/kubernetes-change-feed.ts';
import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { NatsBusStatistics } from '../../shared/adapters/nats-bus-statistics.ts';
import { NatsHistory } from '../../shared/adapters/nats-history.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { StartError } from '../../shared/cli/errors.ts';
import { type Connection, connectionNameOf } from '../../shared/domain/connection.ts';
import type { PageLab } from '../../shared/domain/page-patch.ts';
import { onFreePorts } from '../servers/free-port.ts';
import { type KubeApiserver, launchKubeApiserver } from '../servers/launch-kube-apiserver.ts';
import { launchNats, type NatsServer } from '../servers/launch-nats.ts';
import { RunningServer, type ServerSpec } from '../servers/running-server.ts';
import { removeAbandonedFolders } from '../servers/temporary-folder.ts';
import { Impairments } from './impairments.ts';
import { LAB_GATEWAYS, type Lab, type LabImpairment, type LabOptions, type LabSide, type LabSources } from './lab.ts';
import { createTenant } from './lab-tenant.ts';
import { SlowLink } from './slow-link.ts';
import { SteppableClock } from './steppable-clock.ts';
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
  /** Between the functions and the API server. */
  readonly link: SlowLink;
  readonly clock: SteppableClock | undefined;
};

const METRICS_PORT = 8_089;
const LOOPBACK = '127.0.0.1';
const READY_TIMEOUT_MS = 60_000;
/** What a RunningServer removes in the end: these have no data, and their logs are the lab's. */
const NO_FOLDER = '/nonexistent';

/** @throws StartError that names what the machine lacks; Error with the end of the log of what did not start */
export async function startRealLab(options: RealLabOptions): Promise<RealLab> {
  await using cleanUp = new AsyncDisposableStack();
  await removeAbandonedFolders();
  const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-lab-'));
  let lab: RealLab | undefined;
  cleanUp.defer(async () => {
    if (lab === undefined) await rm(folder, { recursive: true, force: true }); // else it is the lab's to keep or remove
  });
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
  const { hostname, port } = new URL(api.url);
  const link = cleanUp.use(await SlowLink.start({ host: hostname, port: Number(port) }));
  const clock = options.steppableClock ? await SteppableClock.create(`${folder}/clock`) : undefined;
  lab = new RealLab(options, { folder, network, nats, api, client, link, clock }, cleanUp.move());
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
  readonly #link: SlowLink;
  readonly #clock: SteppableClock | undefined;
  readonly #impairments = new Impairments();
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
    this.#link = parts.link;
    this.#clock = parts.clock;
    this.#cleanUp = cleanUp;
    this.#tunnels = options.tunnels;
  }

  /** @internal */
  async start(): Promise<void> {
    await this.#writeKubeconfig();
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

  async cut(interfaceId: string): Promise<void> {
    await this.network.cut(interfaceId);
    this.#impairments.cut(interfaceId);
  }

  /** @throws StartError for a delay: without netem, which is a module of the kernel, nothing here delays packets */
  async impair(interfaceId: string, impairment: LabImpairment): Promise<void> {
    const { lossRate = 0, delayMs = 0, from } = impairment;
    if (delayMs > 0) throw new StartError('the lab on real parts cannot delay packets: want loss, or embedded parts');
    await this.network.lose(interfaceId, lossRate, from);
    this.#impairments.impair(interfaceId, impairment);
  }

  async restore(interfaceId: string): Promise<void> {
    await this.network.restore(interfaceId);
    await this.network.lose(interfaceId, 0);
    this.#impairments.restore(interfaceId);
  }

  /** As a deployment does it: the gateways end, and others with another `--num-interfaces` take their place. */
  async scale(tunnels: number): Promise<void> {
    await Promise.all([...this.#running.values()].map((gateway) => gateway.stop()));
    await this.network.scale(tunnels);
    this.#impairments.scale(tunnels);
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

  async restartGateway(side: LabSide): Promise<void> {
    const gateway = this.#running.get(side);
    await gateway?.kill();
    await gateway?.restart();
  }

  async setNats(isUp: boolean): Promise<void> {
    if (isUp) await this.nats.restart();
    else await this.nats.kill();
  }

  async slowApi(delayMs: number): Promise<void> {
    this.#link.delayMs = delayMs;
  }

  /** @throws StartError unless the lab was started for it */
  async stepClock(byMs: number): Promise<void> {
    if (this.#clock === undefined) throw new StartError('the gateways of this lab run on the clock of the machine');
    await this.#clock.stepBy(byMs);
  }

  state(): PageLab {
    return {
      tunnels: this.#tunnels,
      impairments: this.#impairments.list(),
      functions: [...this.#replicas].map(([name, { length: replicas }]) => ({ name, replicas })),
    };
  }

  async sources(): Promise<LabSources> {
    const bus = NatsBus.open({ servers: [this.nats.url], name: 'wg-keepalive lab' }, systemClock, this.#options.log);
    this.#cleanUp.defer(() => bus.close());
    return {
      live: bus,
      feed: new KubernetesChangeFeed(this.#client, { clock: systemClock, random: Math.random }),
      statistics: new NatsBusStatistics(bus.link),
      history: new NatsHistory(bus.link, systemClock),
    };
  }

  /** Replicas of a function, or a side's gateway: for who freezes them, or counts what they hold. */
  processesOf(what: string): readonly RunningServer[] {
    return (
      this.#replicas.get(what) ?? [...this.#running].flatMap(([side, gateway]) => (side === what ? [gateway] : []))
    );
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
        ...{
          name: `gateway ${gateway.name}`,
          logFile: this.#logFile(mode),
          env: { ...this.#environment(), ...this.#clock?.environment },
        },
        ...this.network.commandLine(mode, command, args),
        ...readiness(`http://${metrics}/healthz`),
      },
      NO_FOLDER,
    );
    this.#running.set(mode, started);
  }

  #environment(): NodeJS.ProcessEnv {
    return environmentFor(this.#kubeconfig(), `${this.folder}/compile-cache`);
  }

  #kubeconfig(): string {
    return `${this.folder}/kubeconfig`;
  }

  /** The API server's own, but by way of the link. */
  async #writeKubeconfig(): Promise<void> {
    const url = new URL(this.api.url);
    url.port = String(this.#link.port);
    const text = await readFile(this.api.kubeconfig, 'utf8');
    await writeFile(this.#kubeconfig(), text.replaceAll(this.api.url, url.origin), { mode: 0o600 });
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
