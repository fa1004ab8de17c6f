import { randomUUID } from 'node:crypto';
import { CATALOG } from '../../functions/catalog.ts';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { PrometheusMeter } from '../../shared/adapters/prometheus-meter.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type Gateway, startGateway } from '../../shared/cli/gateway-run.ts';
import { type Connection, connectionNameOf, REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import { LAB_GATEWAYS, type Lab, type LabOptions } from './lab.ts';
import { openRelayNetwork, type RelayNetwork } from './relay-network.ts';

/** All in this process: real UDP over loopback, bus and Connection store embedded. No root, nothing to install. */
export async function startEmbeddedLab(options: LabOptions): Promise<EmbeddedLab> {
  return new EmbeddedLab(options, await openRelayNetwork({ tunnels: options.tunnels, clock: systemClock }));
}

type Replica = { readonly stop: () => Promise<void>; readonly crash: () => void };

export class EmbeddedLab implements Lab {
  readonly network: RelayNetwork;
  readonly broker = new EmbeddedBroker({ clock: systemClock });
  readonly kubernetes = new EmbeddedKubernetes({ clock: systemClock, newUid: randomUUID });
  readonly meter = new PrometheusMeter();
  readonly #options: LabOptions;
  readonly #state = new EmbeddedStateStore();
  readonly #replicas = new Map<string, Replica[]>();
  readonly #gateways: readonly { readonly gateway: Gateway; readonly bus: EmbeddedBus }[];
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
    this.#gateways = LAB_GATEWAYS.map((side) => this.#startGateway(side));
  }

  async connections(): Promise<readonly Connection[]> {
    return LAB_GATEWAYS.flatMap(
      ({ namespace, name }) => this.kubernetes.get({ namespace, name: connectionNameOf(name) }) ?? [],
    );
  }

  async cut(interfaceId: string): Promise<void> {
    this.network.cut(interfaceId);
  }

  async restore(interfaceId: string): Promise<void> {
    this.network.restore(interfaceId);
  }

  async scale(tunnels: number): Promise<void> {
    await this.network.scale(tunnels);
    LAB_GATEWAYS.forEach(({ mode }, index) => {
      this.#gateways[index]?.gateway.setTunnels(this.network.tunnels(mode));
    });
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
    const ends = await Promise.all(this.#gateways.map(({ gateway }) => gateway.stop()));
    await Promise.all([...this.#replicas.values()].flat().map((replica) => replica.stop()));
    await Promise.all(this.#gateways.map(({ bus }) => bus.close()));
    await this.network.close();
    return { unsent: ends.reduce((sum, { unsent }) => sum + unsent, 0) };
  }

  #createPublicKey(namespace: string, clusterId: string): void {
    this.kubernetes.putPublicKey({
      metadata: { namespace, name: `gw-${clusterId}`, labels: { [REMOTE_CLUSTER_ID_LABEL]: clusterId } },
      spec: { publicKey: Buffer.alloc(32).toString('base64') },
    });
  }

  #startGateway({ namespace, name, mode, clusterId }: (typeof LAB_GATEWAYS)[number]) {
    const bus = new EmbeddedBus(this.broker, systemClock);
    const gateway = startGateway(
      {
        ...{ namespace, name, mode, remoteClusterId: clusterId, gatewayUid: randomUUID(), runId: randomUUID() },
        tunnels: this.network.tunnels(mode),
        settings: this.#options.ping,
      },
      { bus, clock: systemClock, meter: this.meter, log: this.#options.log.child({ gateway: name }) },
    );
    return { gateway, bus };
  }

  #startReplica(name: string): Replica {
    const definition = CATALOG.find(({ manifest }) => manifest.name === name);
    if (definition === undefined) throw new Error(`no function "${name}" in the catalog`);
    const bus = new EmbeddedBus(this.broker, systemClock);
    const ports = {
      ...{ bus, state: this.#state, clock: systemClock, meter: this.meter, log: this.#options.log },
      connections: new EmbeddedConnectionStore(this.kubernetes),
      feed: new EmbeddedChangeFeed(this.kubernetes),
    };
    const stopping = new AbortController();
    const done = runReplica(definition, ports, this.#options.functions, stopping.signal);
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
