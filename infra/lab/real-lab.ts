/**
 * The lab on real parts (root): nats-server, etcd, kube-apiserver, WireGuard tunnels between two network namespaces, both
 * gateways in there, and every replica of every function as a process of its own.
 */

import { KubernetesChangeFeed } from '../../shared/adapters/kubernetes-change-feed.ts';
import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { NatsBusStatistics } from '../../shared/adapters/nats-bus-statistics.ts';
import { NatsHistory } from '../../shared/adapters/nats-history.ts';
import { NatsNotices } from '../../shared/adapters/nats-notices.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { StartError } from '../../shared/cli/errors.ts';
import type { BusUser } from '../../shared/domain/bus-user.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import type { PageLab } from '../../shared/domain/page-patch.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { type KubeApiserver, launchKubeApiserver } from '../servers/launch-kube-apiserver.ts';
import { launchNatsServers, type NatsCluster } from '../servers/launch-nats.ts';
import type { RunningServer } from '../servers/running-server.ts';
import {
  keepTemporaryFolder,
  makeTemporaryFolder,
  removeAbandonedFolders,
  removeTemporaryFolder,
} from '../servers/temporary-folder.ts';
import { BusAccess, type NatsUsers } from './bus-access.ts';
import { FunctionsAccess } from './functions-access.ts';
import { Impairments } from './impairments.ts';
import { LAB_GATEWAYS, type Lab, type LabImpairment, type LabOptions, type LabSources } from './lab.ts';
import { createTenant, tenantConnections } from './lab-tenant.ts';
import { RealLabProcesses } from './real-lab-processes.ts';
import { SlowLink } from './slow-link.ts';
import { SteppableClock } from './steppable-clock.ts';
import { environmentFor, runToEnd, wgKeepalive } from './wg-keepalive-process.ts';
import { startWireguardNetwork, type WireguardNetwork } from './wireguard-network.ts';

export type RealLabOptions = LabOptions & {
  /** Servers of the NATS cluster, each with a copy of every stream. @defaultValue 1 */
  readonly natsReplicas?: number;
  /** Lets in these only; left out: anybody. */
  readonly natsUsers?: NatsUsers;
  /** Told of each step of the start as it begins, and of what holds one up. */
  readonly onProgress?: (step: string) => void;
  /** Called when the tunnels are there and no gateway runs yet. */
  readonly prepare?: (network: WireguardNetwork) => Promise<void>;
};

type Parts = {
  /** Of the logs. */
  readonly folder: string;
  readonly network: WireguardNetwork;
  readonly nats: NatsCluster;
  readonly api: KubeApiserver;
  readonly client: KubernetesClient;
  /** Between the functions and the API server. */
  readonly link: SlowLink;
  readonly access: FunctionsAccess;
  readonly clock: SteppableClock | undefined;
};

/** @throws StartError that names what the machine lacks; Error with the end of the log of what did not start */
export async function startRealLab(options: RealLabOptions): Promise<RealLab> {
  await using cleanUp = new AsyncDisposableStack();
  await removeAbandonedFolders();
  const folder = await makeTemporaryFolder('lab');
  const { tunnels, natsReplicas = 1, natsUsers, onProgress = () => {} } = options;
  let lab: RealLab | undefined;
  cleanUp.defer(async () => {
    if (lab === undefined) await removeTemporaryFolder(folder); // else it is the lab's to keep or remove
  });
  onProgress(`two network namespaces, ${tunnels} WireGuard tunnel${tunnels === 1 ? '' : 's'}`);
  const network = cleanUp.use(await startWireguardNetwork({ tunnels, logFolder: folder, onWait: onProgress }));
  const { host } = network;
  onProgress(`nats-server${natsReplicas === 1 ? '' : ` × ${natsReplicas}`}, etcd, kube-apiserver`);
  const servers = [
    launchNatsServers(natsReplicas, { host, ...(natsUsers && { configFile: natsUsers.configFile }) }).then((server) =>
      cleanUp.use(server),
    ),
    launchKubeApiserver({ host, audit: true }).then((server) => cleanUp.use(server)),
  ] as const;
  await Promise.allSettled(servers); // both have ended or been put on the stack before the stack may unwind
  const [nats, api] = await Promise.all(servers);
  const client = await KubernetesClient.connect({ clock: systemClock, kubeconfig: api.kubeconfig });
  cleanUp.defer(() => client.close());
  const { hostname, port } = new URL(api.url);
  const link = cleanUp.use(await SlowLink.start({ host: hostname, port: Number(port) }));
  const access = await FunctionsAccess.create(folder, { api, admin: client, linkPort: link.port });
  const clock = options.steppableClock ? await SteppableClock.create(`${folder}/clock`) : undefined;
  lab = new RealLab(options, { folder, network, nats, api, client, link, access, clock }, cleanUp.move());
  try {
    await lab.start();
  } catch (error) {
    await lab.stop({ keepLogs: true });
    options.log.error({ folder: lab.folder }, 'the lab does not start; its logs are kept');
    throw error;
  }
  return lab;
}

/** Both gateways and all replicas, as child processes that do not outlive this one. */
export class RealLab implements Lab {
  readonly network: WireguardNetwork;
  readonly nats: NatsCluster;
  readonly api: KubeApiserver;
  readonly #options: RealLabOptions;
  readonly #client: KubernetesClient;
  readonly #link: SlowLink;
  readonly #access: FunctionsAccess;
  readonly #busAccess: BusAccess;
  readonly #clock: SteppableClock | undefined;
  readonly #impairments = new Impairments();
  readonly #cleanUp: AsyncDisposableStack;
  readonly #processes: RealLabProcesses;
  #folder: string;
  #tunnels: number;
  #stopped: Promise<{ readonly unsent: number }> | undefined;

  /** @see {@link startRealLab} */
  constructor(options: RealLabOptions, parts: Parts, cleanUp: AsyncDisposableStack) {
    this.network = parts.network;
    this.nats = parts.nats;
    this.api = parts.api;
    this.#folder = parts.folder;
    this.#options = options;
    this.#client = parts.client;
    this.#link = parts.link;
    this.#access = parts.access;
    this.#busAccess = new BusAccess(parts.nats.urls, options.natsUsers);
    this.#clock = parts.clock;
    this.#cleanUp = cleanUp;
    this.#tunnels = options.tunnels;
    this.#processes = new RealLabProcesses(options, {
      ...{
        folder: parts.folder,
        network: parts.network,
        bus: this.#busAccess,
        environment: this.#environment(),
      },
      gatewayEnvironment: parts.clock?.environment ?? {},
    });
  }

  /** Every process's log, a file each; another folder once the lab has stopped and kept them. */
  get folder(): string {
    return this.#folder;
  }

  /** @internal */
  async start(): Promise<void> {
    const { onProgress = () => {}, replicas } = this.#options;
    onProgress('CRDs, streams, consumers');
    await runToEnd({
      ...{ name: 'wg-keepalive setup', logFile: `${this.#folder}/setup.log`, env: this.#environment() },
      ...wgKeepalive(
        'setup',
        ...this.#busAccess.flagsOf({ role: 'setup' }),
        `--nats-replicas=${this.nats.servers.length}`,
      ),
    });
    onProgress('namespaces');
    await Promise.all(LAB_GATEWAYS.map((gateway) => createTenant(this.#client, gateway)));
    await this.#options.prepare?.(this.network);
    onProgress(`${LAB_GATEWAYS.length} gateways, functions${replicas === 1 ? '' : ` × ${replicas}`}`);
    await this.#processes.start(this.#tunnels);
  }

  connections(): Promise<readonly Connection[]> {
    return tenantConnections(this.#client);
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
    await this.#processes.stopGateways();
    await this.network.scale(tunnels);
    this.#impairments.scale(tunnels);
    this.#tunnels = tunnels;
    await this.#processes.startGateways(tunnels);
  }

  crash(functionName: string): Promise<void> {
    return this.#processes.crash(functionName);
  }

  restartGateway(side: GatewayMode): Promise<void> {
    return this.#processes.restartGateway(side);
  }

  async setNats(isUp: boolean): Promise<void> {
    // All at once: one alone is not ready, for want of a majority.
    await Promise.all(this.nats.servers.map((server) => (isUp ? server.restart() : server.kill())));
  }

  async slowApi(delayMs: number): Promise<void> {
    this.#link.delayMs = delayMs;
  }

  /** The functions find another token in their file, and the one they had is worth nothing. */
  rotateToken(): Promise<void> {
    return this.#access.rotate();
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
      functions: this.#processes.functions(),
    };
  }

  async sources(): Promise<LabSources> {
    const page = this.#openBus({ role: 'page' });
    const replay = this.#openBus({ role: 'replay' });
    return {
      live: page,
      notices: new NatsNotices(page.link),
      feed: new KubernetesChangeFeed(this.#client, { clock: systemClock, random: Math.random }),
      statistics: new NatsBusStatistics(page.link),
      history: new NatsHistory(replay.link, systemClock),
    };
  }

  /** Replicas of a function, or a side's gateway: for who freezes them, or counts what they hold. */
  processesOf(what: string): readonly RunningServer[] {
    return this.#processes.of(what);
  }

  /** What the gateway of this side shows at `/metrics`. */
  async gatewayMetrics(side: GatewayMode): Promise<string> {
    const response = await fetch(`http://${this.#processes.gatewayAddress(side)}/metrics`);
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
    const { unsent, died } = await this.#processes.stop();
    await this.#cleanUp.disposeAsync();
    if (!keepLogs && !died) await removeTemporaryFolder(this.#folder);
    else this.#folder = await keepTemporaryFolder(this.#folder);
    if (died)
      this.#options.log.error({ folder: this.#folder }, 'a process of the lab ended by itself; all logs are kept');
    return { unsent };
  }

  #openBus(user: BusUser): NatsBus {
    const bus = NatsBus.open(this.#busAccess.optionsOf(user), systemClock, this.#options.log);
    this.#cleanUp.defer(() => bus.close());
    return bus;
  }

  #environment(): NodeJS.ProcessEnv {
    return environmentFor(this.#access.kubeconfig, `${this.#folder}/compile-cache`);
  }
}
