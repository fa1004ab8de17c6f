import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { CATALOG } from '../../functions/catalog.ts';
import { launchNats, type NatsServer } from '../../infra/servers/launch-nats.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { Connection, ConnectionRef, TunnelEntry } from '../../shared/domain/connection.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import { ApiProxy } from './api-proxy.ts';
import { connectionWrites } from './audit-log.ts';
import { eventually } from './eventually.ts';
import { KubernetesUnderTest } from './kubernetes.ts';
import { SETUP_FOR_TESTS } from './nats-harness.ts';
import { silentLogger } from './silent-logger.ts';
import { TestGateway } from './test-gateway.ts';
import { WgKeepalive } from './wg-keepalive.ts';

/** Consumers of all functions. */
export const CONSUMERS = CATALOG.flatMap(({ manifest }) => ('consumers' in manifest ? manifest.consumers : []));

/** nats-server, kube-apiserver with an audit log, what setup makes there, and functions in processes of their own. */
export class FunctionsOnRealParts implements AsyncDisposable {
  readonly kubernetes: KubernetesUnderTest;
  readonly nats: NatsServer;
  /** The test's own, as everybody at once. */
  readonly bus: NatsBus;
  readonly store: KubernetesConnectionStore;
  /** Between the functions and the API server. */
  readonly apiProxy: ApiProxy;
  readonly decisions: Decision[] = [];
  readonly #cleanUp: AsyncDisposableStack;
  readonly #kubeconfig: string;

  private constructor(
    parts: Pick<FunctionsOnRealParts, 'kubernetes' | 'nats' | 'bus' | 'apiProxy'> & { readonly kubeconfig: string },
    cleanUp: AsyncDisposableStack,
  ) {
    this.kubernetes = parts.kubernetes;
    this.nats = parts.nats;
    this.bus = parts.bus;
    this.apiProxy = parts.apiProxy;
    this.#kubeconfig = parts.kubeconfig;
    this.#cleanUp = cleanUp;
    this.store = new KubernetesConnectionStore(this.kubernetes.admin);
    const end = new AbortController();
    cleanUp.defer(() => end.abort());
    const note = ({ data }: { readonly data: Uint8Array }) => {
      this.decisions.push(JSON.parse(new TextDecoder().decode(data)) as Decision);
    };
    this.bus.subscribe('live.decisions.>', note, end.signal);
  }

  static async start(): Promise<FunctionsOnRealParts> {
    await using cleanUp = new AsyncDisposableStack();
    const kubernetes = cleanUp.use(await KubernetesUnderTest.start({ audit: true }));
    const nats = cleanUp.use(await launchNats());
    const bus = NatsBus.open({ servers: [nats.url], name: 'test' }, systemClock, silentLogger);
    cleanUp.defer(() => bus.close());
    await bus.link.whenUp();
    await setupBus(bus.link.connection, SETUP_FOR_TESTS(CONSUMERS));
    const ca = await readFile(kubernetes.api.caFile, 'utf8');
    const apiProxy = cleanUp.use(await ApiProxy.start(kubernetes.api.url, ca));
    const kubeconfig = join(kubernetes.folder, 'kubeconfig-by-proxy');
    await writeFile(kubeconfig, kubeconfigOf(apiProxy.url, kubernetes.api.tokenOf('admin')), { mode: 0o600 });
    return new FunctionsOnRealParts({ kubernetes, nats, bus, apiProxy, kubeconfig }, cleanUp.move());
  }

  /** Starts `wg-keepalive function NAMES`; it ends with the rest. */
  async startFunctions(flags: readonly string[] = [], names: readonly string[] = ['all']): Promise<WgKeepalive> {
    const args = ['function', ...names, `--nats-url=${this.nats.url}`, ...flags];
    const env = { ...process.env, KUBECONFIG: this.#kubeconfig };
    return this.#cleanUp.use(await WgKeepalive.start({ args, env, folder: this.kubernetes.folder }));
  }

  /** A gateway in a namespace of its own, listed: its Connection exists with these tunnels. */
  async gateway(tunnels = 1): Promise<TestGateway> {
    const gateway = this.#cleanUp.use(new TestGateway(this.bus, await this.kubernetes.namespace(), tunnels));
    await gateway.announce();
    await this.untilListed(gateway);
    return gateway;
  }

  /** Until tunnel-status knows the listing, not only the API server: the decisions say so. */
  async untilListed({ ref, interfaces, epoch }: TestGateway): Promise<void> {
    const listed = () =>
      this.decisions.filter(
        ({ namespace, function: name, reason, after }) =>
          namespace === ref.namespace &&
          name === 'tunnel-status' &&
          reason === 'Listed' &&
          (after as { readonly gatewayEpoch?: number }).gatewayEpoch === epoch,
      );
    await eventually(
      () => new Set(listed().map(({ interfaceId }) => interfaceId)).size >= interfaces.length,
      'the listing',
    );
  }

  connection(ref: ConnectionRef): Promise<Connection | undefined> {
    return this.store.get(ref);
  }

  async tunnel(ref: ConnectionRef, interfaceId = 'liqo-tunnel'): Promise<TunnelEntry | undefined> {
    return (await this.store.get(ref))?.status?.tunnels?.find(({ interfaceID }) => interfaceID === interfaceId);
  }

  /** Writes of a Connection that the API server answered, by its audit log. */
  async writes({ namespace, name }: ConnectionRef) {
    const all = await connectionWrites(this.kubernetes.api.auditLogFile ?? '');
    return all.filter(({ connection }) => connection === `${namespace}/${name}`);
  }

  manager(): Promise<JetStreamManager> {
    return jetstreamManager(this.bus.link.connection, { checkAPI: false });
  }

  /** Consumers of all streams of the topology, by name. */
  async consumerNames(): Promise<string[]> {
    const manager = await this.manager();
    const names: string[] = [];
    for (const stream of new Set(CONSUMERS.map((spec) => spec.stream))) {
      for await (const { name } of manager.consumers.list(stream)) names.push(`${stream}/${name}`);
    }
    return names.sort();
  }

  /** Until no event waits anywhere and none is in work. */
  async untilIdle(): Promise<void> {
    const manager = await this.manager();
    const isIdle = async () => {
      const infos = await Promise.all(CONSUMERS.map(({ stream, durable }) => manager.consumers.info(stream, durable)));
      return infos.every(({ num_pending, num_ack_pending }) => num_pending + num_ack_pending === 0);
    };
    await eventually(isIdle, 'all queues to be empty', 60_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanUp.disposeAsync();
  }
}

/** For a server in the clear, which the client takes only where nothing is to be verified. */
function kubeconfigOf(server: string, token: string): string {
  return JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'test' },
    clusters: [{ name: 'test', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  });
}
