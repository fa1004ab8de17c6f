import { randomUUID } from 'node:crypto';
import { CATALOG } from '../../functions/catalog.ts';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedBusStatistics } from '../../shared/adapters/embedded-bus-statistics.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { EmbeddedNotices } from '../../shared/adapters/embedded-notices.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { PrometheusMeter } from '../../shared/adapters/prometheus-meter.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type Gateway, startGateway } from '../../shared/cli/gateway-run.ts';
import { type Connection, connectionNameOf, REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import type { PageLab } from '../../shared/domain/page-patch.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import { Impairments } from './impairments.ts';
import { LAB_GATEWAYS, type Lab, type LabImpairment, type LabOptions, type LabSources } from './lab.ts';
import { LabClock } from './lab-clock.ts';
import { openRelayNetwork, type RelayNetwork } from './relay-network.ts';
import { slowStore } from './slow-store.ts';

/** All in this process: real UDP over loopback, bus and Connection store embedded. No root, nothing to install. */
export async function startEmbeddedLab(options: LabOptions): Promise<EmbeddedLab> {
  return new EmbeddedLab(options, await openRelayNetwork({ tunnels: options.tunnels, clock: systemClock }));
}

type LabGateway = { readonly gateway: Gateway; readonly bus: EmbeddedBus };
type Replica = { readonly stop: () => Promise<void>; readonly crash: () => void };

export class EmbeddedLab implements Lab {
  readonly network: RelayNetwork;
  readonly broker = new EmbeddedBroker({ clock: systemClock });
  readonly kubernetes = new EmbeddedKubernetes({ clock: systemClock, newUid: randomUUID });
  readonly meter = new PrometheusMeter();
  readonly #options: LabOptions;
  readonly #state = new EmbeddedStateStore();
  readonly #notices = new EmbeddedNotices(this.broker);
  readonly #replicas = new Map<string, Replica[]>();
  /** Replicas that were ever started. */
  #started = 0;
  readonly #gateways = new Map<GatewayMode, LabGateway>();
  readonly #impairments = new Impairments();
  /** Of gateways and functions; the wall clocks of the bus and of the API stay true. */
  readonly #clock = new LabClock();
  readonly #watcher = new EmbeddedBus(this.broker, systemClock);
  #apiDelayMs = 0;
  #stopped: Promise<{ readonly unsent: number }> | undefined;

  /** @see {@link startEmbeddedLab} */
  constructor(options: LabOptions, network: RelayNetwork) {
    this.#options = options;
    this.network = network;
    for (const { namespace, clusterId } of LAB_GATEWAYS) this.#createPublicKey(namespace, clusterId);
    for (const { manifest } of CATALOG) {
      const replicas = Array.from({ length: options.replicas }, () => this.#startReplica(manifest.name));
      this.#replicas.set(manifest.name, replicas);
    }
    for (const side of LAB_GATEWAYS) this.#gateways.set(side.mode, this.#startGateway(side));
  }

  async connections(): Promise<readonly Connection[]> {
    return LAB_GATEWAYS.flatMap(
      ({ namespace, name }) => this.kubernetes.get({ namespace, name: connectionNameOf(name) }) ?? [],
    );
  }

  async cut(interfaceId: string): Promise<void> {
    this.network.cut(interfaceId);
    this.#impairments.cut(interfaceId);
  }

  async impair(interfaceId: string, impairment: LabImpairment): Promise<void> {
    const { from, ...what } = impairment;
    for (const side of ['server', 'client'] as const) {
      this.network.impair(interfaceId, side, from === undefined || from === side ? what : {});
    }
    this.#impairments.impair(interfaceId, impairment);
  }

  async restore(interfaceId: string): Promise<void> {
    this.network.restore(interfaceId);
    for (const side of ['server', 'client'] as const) this.network.impair(interfaceId, side, {});
    this.#impairments.restore(interfaceId);
  }

  async scale(tunnels: number): Promise<void> {
    await this.network.scale(tunnels);
    this.#impairments.scale(tunnels);
    for (const [mode, { gateway }] of this.#gateways) gateway.setTunnels(this.network.tunnels(mode));
  }

  async restartGateway(mode: GatewayMode): Promise<void> {
    const side = LAB_GATEWAYS.find((one) => one.mode === mode) as (typeof LAB_GATEWAYS)[number];
    const killed = this.#gateways.get(mode);
    await killed?.bus.close(); // first: what it has not said yet, it never says
    await killed?.gateway.stop(0);
    this.#gateways.set(mode, this.#startGateway(side));
  }

  async setNats(isUp: boolean): Promise<void> {
    this.broker.setOutage(isUp ? undefined : 'NATS was taken away');
  }

  async slowApi(delayMs: number): Promise<void> {
    this.#apiDelayMs = delayMs;
  }

  async stepClock(byMs: number): Promise<void> {
    this.#clock.stepBy(byMs);
  }

  state(): PageLab {
    return {
      tunnels: this.network.tunnels('server').length,
      impairments: this.#impairments.list(),
      functions: [...this.#replicas].map(([name, { length: replicas }]) => ({ name, replicas })),
    };
  }

  async sources(): Promise<LabSources> {
    return {
      live: this.#watcher,
      notices: this.#notices,
      feed: new EmbeddedChangeFeed(this.kubernetes),
      statistics: new EmbeddedBusStatistics(this.broker),
      history: new EmbeddedHistory(this.broker),
    };
  }

  async crash(functionName: string): Promise<void> {
    const replicas = this.#replicas.get(functionName);
    if (replicas === undefined) {
      throw new Error(`no function "${functionName}": there are ${[...this.#replicas.keys()].join(', ')}`);
    }
    replicas.shift()?.crash();
    replicas.push(this.#startReplica(functionName));
  }

  /** Gateways first, so that the functions still see their last words. */
  stop(): Promise<{ readonly unsent: number }> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(): Promise<{ readonly unsent: number }> {
    const gateways = [...this.#gateways.values()];
    const ends = await Promise.all(gateways.map(({ gateway }) => gateway.stop()));
    await Promise.all([...this.#replicas.values()].flat().map((replica) => replica.stop()));
    await Promise.all([...gateways.map(({ bus }) => bus.close()), this.#watcher.close()]);
    await this.network.close();
    return { unsent: ends.reduce((sum, { unsent }) => sum + unsent, 0) };
  }

  #createPublicKey(namespace: string, clusterId: string): void {
    this.kubernetes.putPublicKey({
      metadata: { namespace, name: `gw-${clusterId}`, labels: { [REMOTE_CLUSTER_ID_LABEL]: clusterId } },
      spec: { publicKey: Buffer.alloc(32).toString('base64') },
    });
  }

  #startGateway({ namespace, name, mode, clusterId }: (typeof LAB_GATEWAYS)[number]): LabGateway {
    const bus = new EmbeddedBus(this.broker, this.#clock);
    const gateway = startGateway(
      {
        ...{ namespace, name, mode, remoteClusterId: clusterId, gatewayUid: randomUUID(), runId: randomUUID() },
        tunnels: this.network.tunnels(mode),
        settings: this.#options.ping,
      },
      { bus, clock: this.#clock, meter: this.meter, log: this.#options.log.child({ gateway: name }) },
    );
    return { gateway, bus };
  }

  #startReplica(name: string): Replica {
    const definition = CATALOG.find(({ manifest }) => manifest.name === name);
    if (definition === undefined) throw new Error(`no function "${name}" in the catalog`);
    const clock = this.#clock;
    const bus = new EmbeddedBus(this.broker, clock);
    const ports = {
      ...{ bus, state: this.#state, clock, meter: this.meter, log: this.#options.log },
      connections: slowStore(new EmbeddedConnectionStore(this.kubernetes), clock, () => this.#apiDelayMs),
      feed: new EmbeddedChangeFeed(this.kubernetes),
    };
    const stopping = new AbortController();
    const reporting = { replica: `replica ${++this.#started}`, notices: this.#notices };
    const done = runReplica(definition, ports, this.#options.functions, stopping.signal, reporting);
    return {
      stop: async () => {
        stopping.abort();
        await done;
        await bus.close();
      },
      /** What it holds stays unsettled, as after SIGKILL. */
      crash: () => {
        void bus.close();
        stopping.abort();
      },
    };
  }
}
