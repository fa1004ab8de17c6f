import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import type { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { MESSAGE_ID_HEADER } from '../../shared/domain/cloud-event.ts';
import { CONNECTION_API_VERSION, type Connection } from '../../shared/domain/connection.ts';
import { connected, desiredConnection } from '../contract/connection-store.contract.ts';
import { ApiProxy } from '../support/api-proxy.ts';
import { ClientAuthority, type ClientCertificate } from '../support/certificate.ts';
import { eventually } from '../support/eventually.ts';
import { KubernetesUnderTest } from '../support/kubernetes.ts';
import { type NatsHarness, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { WgKeepalive } from '../support/wg-keepalive.ts';

const NEEDS = ['nats-server', 'etcd', 'kube-apiserver', 'openssl', 'faketime'] as const;
const LIMIT_MS = 60_000;
const RBAC = '/apis/rbac.authorization.k8s.io/v1';

await describeReal('connection-watch, processes on real parts', NEEDS, () => {
  let folder: string;
  let clients: ClientAuthority;
  let kubernetes: KubernetesUnderTest;
  let nats: NatsHarness;
  let bus: NatsBus;
  let store: KubernetesConnectionStore;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-watch-'));
    clients = await ClientAuthority.create(folder);
    const args = [`--client-ca-file=${clients.caFile}`];
    kubernetes = await KubernetesUnderTest.start({ audit: true, users: [{ name: 'watcher' }], args });
    nats = await startNatsHarness();
    bus = await nats.connect();
    store = new KubernetesConnectionStore(kubernetes.admin);
  });
  afterAll(async () => {
    await nats?.[Symbol.asyncDispose]();
    await kubernetes?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** `wg-keepalive function connection-watch`, ready; it ends with the test. */
  async function startWatch(kubeconfig: string, flags: readonly string[] = [], environment: NodeJS.ProcessEnv = {}) {
    const args = ['function', 'connection-watch', `--nats-url=${nats.server.url}`, ...flags];
    const env = { ...process.env, KUBECONFIG: kubeconfig, ...environment };
    const watch = await WgKeepalive.start({ args, env, folder });
    onTestFinished(() => watch[Symbol.asyncDispose]());
    return watch.untilReady();
  }

  const untilUnready = (watch: WgKeepalive, reason: RegExp) =>
    eventually(
      async () => {
        const readiness = await watch.readiness();
        return readiness?.isReady === false && reason.test(readiness.text);
      },
      `readiness to fail by ${reason}`,
      LIMIT_MS,
    );

  /** Ids of what CHANGES holds of a namespace, in order. */
  async function told(namespace: string): Promise<string[]> {
    const { direct } = await jetstreamManager(bus.link.connection, { checkAPI: false });
    const ids: string[] = [];
    for await (const { subject, header } of await direct.getBatch('CHANGES', { seq: 1, batch: 10_000 })) {
      if (subject.split('.')[2] === namespace) ids.push(header.get(MESSAGE_ID_HEADER));
    }
    return ids;
  }

  /** The same of one Connection: another API server may have a namespace of that name, too. */
  const toldOf = async ({ metadata }: Connection) =>
    (await told(metadata.namespace)).filter((id) => id.startsWith(`${metadata.uid}.`));

  const idOf = ({ metadata }: Connection) => `${metadata.uid}.${metadata.resourceVersion}`;

  const untilTold = (connection: Connection) => {
    const isTold = async () => (await told(connection.metadata.namespace)).includes(idOf(connection));
    return eventually(isTold, `${idOf(connection)} to be told`, LIMIT_MS);
  };

  async function newConnection(namespace?: string): Promise<Connection> {
    return (await store.ensure(desiredConnection(namespace ?? (await kubernetes.namespace())))).connection;
  }

  const edit = ({ metadata }: Connection, latency: string) =>
    store.applyTunnel(metadata, connected('liqo-tunnel', latency));

  /** Requests of a user, as the audit log has them. */
  async function requestsOf(
    user: string,
    { auditLogFile = '' } = kubernetes.api,
  ): Promise<{ requestURI: string; code: number }[]> {
    type Line = { requestURI: string; user: { username: string }; responseStatus?: { code: number } };
    const lines = (await readFile(auditLogFile, 'utf8')).trim().split('\n');
    const events = lines.map((line) => JSON.parse(line) as Line).filter(({ user: { username } }) => username === user);
    return events.map(({ requestURI, responseStatus }) => ({ requestURI, code: responseStatus?.code ?? 0 }));
  }

  test('three replicas publish each change once, and in order', { timeout: 2 * LIMIT_MS }, async () => {
    const kubeconfig = await kubernetes.kubeconfig();
    const replicas = await Promise.all([startWatch(kubeconfig), startWatch(kubeconfig), startWatch(kubeconfig)]);
    const connection = await newConnection();
    const { namespace, name } = connection.metadata;
    const states = [connection];
    for (let round = 1; round <= 30; round++) states.push(await edit(connection, `${round}ms`));
    const path = `/apis/${CONNECTION_API_VERSION}/namespaces/${namespace}/connections/${name}`;
    await kubernetes.admin.call({ method: 'DELETE', path });

    const counts = async (outcome: string) =>
      Promise.all(replicas.map((replica) => replica.metric('wg_keepalive_events_total', { outcome })));
    const want = states.length + 1;
    const isOver = async () => {
      const [written, throttled] = [await counts('written'), await counts('throttled')];
      return written.every((count, index) => count + (throttled[index] ?? 0) === want);
    };
    await eventually(isOver, `each replica to have told ${want} changes`, LIMIT_MS);

    const ids = await told(namespace);
    expect(ids.slice(0, -1)).toEqual(states.map(idOf));
    expect(ids.at(-1)).toMatch(/\.deleted$/);
    expect(ids).toHaveLength(want);
    const written = await counts('written');
    expect(written.reduce((sum, count) => sum + count, 0)).toBe(want);
  });

  test('annotations are not told, and an object that no message can carry holds up none of the others', async () => {
    const watch = await startWatch(await kubernetes.kubeconfig());
    const [large, annotated] = [await newConnection(), await newConnection()];
    const mend = async ({ metadata: { namespace, name } }: Connection, body: object) => {
      const path = `/apis/${CONNECTION_API_VERSION}/namespaces/${namespace}/connections/${name}`;
      const contentType = 'application/merge-patch+json';
      const request = { method: 'PATCH', path, contentType, body } as const;
      return (await kubernetes.admin.call<Connection>(request)).body;
    };
    const named = (name: string) => ({ spec: { gatewayRef: { name } } });
    await mend(large, named('x'.repeat(1_100_000)));
    await untilTold(await mend(annotated, { metadata: { annotations: { note: '"'.repeat(250 * 1024) } } }));
    const [message] = await bus.lastMessages('CHANGES', `changes.connections.${annotated.metadata.namespace}.*`);
    expect(message?.data.byteLength).toBeLessThan(4_096);
    expect(await told(large.metadata.namespace)).toEqual([idOf(large)]);
    expect(await watch.metric('wg_keepalive_events_total', { outcome: 'invalid' })).toBeGreaterThan(0);
    await untilTold(await mend(large, named('rome')));
  });

  test('a subset of namespaces, by rights in these alone', async () => {
    const [ours, alsoOurs, other] = await Promise.all([
      kubernetes.namespace(),
      kubernetes.namespace(),
      kubernetes.namespace(),
    ]);
    for (const namespace of [ours, alsoOurs]) {
      const path = `${RBAC}/namespaces/${namespace}`;
      const metadata = { name: 'watcher' };
      const rules = [
        { apiGroups: ['networking.liqo.io'], resources: ['connections', 'publickeies'], verbs: ['list', 'watch'] },
      ];
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'watcher' };
      const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'watcher' }];
      await kubernetes.admin.call({ method: 'POST', path: `${path}/roles`, body: { metadata, rules } });
      await kubernetes.admin.call({
        method: 'POST',
        path: `${path}/rolebindings`,
        body: { metadata, roleRef, subjects },
      });
    }
    const kubeconfig = await kubernetes.kubeconfig({ user: { token: kubernetes.api.tokenOf('watcher') } });
    await startWatch(kubeconfig, [`--watch-namespace=${ours}`, `--watch-namespace=${alsoOurs}`]);

    await newConnection(other);
    const watched = [await newConnection(ours), await newConnection(alsoOurs)];
    for (const connection of watched) await untilTold(connection);
    expect(await told(other)).toEqual([]);
    const requests = (await requestsOf('watcher')).filter(({ requestURI }) =>
      requestURI.includes('/networking.liqo.io/'),
    );
    expect(requests.length).toBeGreaterThan(0);
    for (const { requestURI, code } of requests) {
      expect(requestURI).toMatch(new RegExp(`/namespaces/(${ours}|${alsoOurs})/(connections|publickeies)\\?`));
      expect(code).toBe(200);
    }
  });

  test('is not ready while it is blind, and tells afterwards what happened meanwhile', async () => {
    const connection = await newConnection();
    const { relay, server } = await kubernetes.relay();
    const watch = await startWatch(await kubernetes.kubeconfig({ server }));

    relay.cut();
    await untilUnready(watch, /no watch of (connections|publickeies) in all namespaces/);
    expect(await watch.isAlive()).toBe(true);
    const edited = await edit(connection, '2ms');
    expect(await told(connection.metadata.namespace)).not.toContain(idOf(edited));
    relay.heal();
    await untilTold(edited);
    await watch.untilReady();

    await kubernetes.api.kill();
    await untilUnready(watch, /no watch of/);
    await kubernetes.api.restart();
    await untilTold(await edit(connection, '3ms'));
    await watch.untilReady();
  });

  test('takes a new list where what it watched is compacted away (410), and tells what was deleted meanwhile', async () => {
    const users = [{ name: 'reader', groups: ['system:masters'] }];
    // Without its cache the API server watches etcd itself, which keeps nothing behind the compaction.
    const own = await KubernetesUnderTest.start({ audit: true, users, args: ['--watch-cache=false'] });
    onTestFinished(() => own[Symbol.asyncDispose]());
    const ownStore = new KubernetesConnectionStore(own.admin);
    const create = async () => (await ownStore.ensure(desiredConnection(await own.namespace()))).connection;
    const [stays, changes, goes] = [await create(), await create(), await create()];
    const { relay, server } = await own.relay();
    const user = { token: own.api.tokenOf('reader') };
    const watch = await startWatch(await own.kubeconfig({ server, user }));
    for (const connection of [stays, changes, goes]) await untilTold(connection);

    relay.cut();
    await untilUnready(watch, /no watch of connections/);
    const path = ({ metadata }: Connection) =>
      `/apis/${CONNECTION_API_VERSION}/namespaces/${metadata.namespace}/connections/${metadata.name}`;
    await own.admin.call({ method: 'DELETE', path: path(goes) });
    const changed = await ownStore.applyTunnel(changes.metadata, connected('liqo-tunnel', '2ms'));
    const appeared = await create();
    const body = JSON.stringify({ revision: appeared.metadata.resourceVersion, physical: true });
    const compaction = await fetch(`${own.api.etcd.url}/v3/kv/compaction`, { method: 'POST', body });
    expect(compaction.status).toBe(200);
    const { resourceVersion } = goes.metadata;
    const query = { watch: true, resourceVersion, timeoutSeconds: 5 };
    const answer = own.admin.open({ method: 'GET', path: `/apis/${CONNECTION_API_VERSION}/connections`, query });
    expect(await text(await answer)).toMatch(/"type":"ERROR".*"code":410/);

    relay.heal();
    for (const connection of [changed, appeared]) await untilTold(connection);
    await watch.untilReady();
    expect(await toldOf(stays)).toEqual([idOf(stays)]);
    expect(await toldOf(changes)).toEqual([idOf(changes), idOf(changed)]);
    expect(await toldOf(goes)).toEqual([idOf(goes), expect.stringMatching(/\.deleted$/)]);
    const requests = (await requestsOf('reader', own.api)).filter(({ requestURI }) =>
      requestURI.includes('/connections?'),
    );
    expect(requests.filter(({ requestURI }) => !requestURI.includes('watch=')).length).toBe(2); // lists
    await untilTold(await ownStore.applyTunnel(stays.metadata, connected('liqo-tunnel', '3ms')));
  });

  test('asks ever less while the API server fails, and leaves it alone for as long as it says', async () => {
    const proxy = await ApiProxy.start(kubernetes.api.url, await readFile(kubernetes.api.caFile, 'utf8'));
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const { relay, server } = await kubernetes.relay(proxy.url);
    const watch = await startWatch(await kubernetes.kubeconfig({ server }));
    const connection = await newConnection();
    await untilTold(connection);

    /** Requests by path, from now on for so long, if each is answered thus. */
    const answered = async (status: number, headers: Record<string, string>, forMs: number) => {
      const counts = new Map<string, number>();
      proxy.treat = ({ url }) => {
        const path = url.split('?')[0] ?? '';
        counts.set(path, (counts.get(path) ?? 0) + 1);
        return { answer: { status, headers } };
      };
      const startMs = performance.now();
      relay.closeAll();
      await sleep(forMs);
      const watches = [...counts].flatMap(([path, count]) => (/connections$|publickeies$/.test(path) ? [count] : []));
      const schema = counts.get(`/openapi/v3/apis/${CONNECTION_API_VERSION}`) ?? 0;
      return { watches, schema, tookMs: performance.now() - startMs };
    };

    const failing = await answered(500, {}, 6_000);
    // Pauses are at least 100 ms, 200 ms, 400 ms …
    const most = 2 + Math.floor(Math.log2(failing.tookMs / 100 + 1));
    expect(failing.watches).toHaveLength(2);
    for (const count of failing.watches) {
      expect(count).toBeGreaterThan(1);
      expect(count).toBeLessThanOrEqual(most);
    }
    expect(failing.schema).toBeLessThanOrEqual(2 + failing.tookMs / 1_000);
    await untilUnready(watch, /500/);

    const busy = await answered(429, { 'retry-after': '4' }, 9_000);
    for (const count of [...busy.watches, busy.schema]) expect(count).toBeLessThanOrEqual(2 + busy.tookMs / 4_000);

    proxy.treat = () => ({});
    await untilTold(await edit(connection, '2ms'));
    await watch.untilReady();
  });

  test('takes a new client certificate, also after the old one has expired', { timeout: 3 * LIMIT_MS }, async () => {
    const files = { certificate: join(folder, 'own.crt'), key: join(folder, 'own.key') };
    const install = async ({ certificate, key }: ClientCertificate) => {
      await writeFile(files.key, key);
      await writeFile(files.certificate, certificate);
    };
    await install(await clients.issue('first'));
    const { relay, server } = await kubernetes.relay();
    const user = { 'client-certificate': files.certificate, 'client-key': files.key };
    const watch = await startWatch(await kubernetes.kubeconfig({ server, user }));
    const connection = await newConnection();
    await untilTold(connection);
    expect((await requestsOf('first')).map(({ code }) => code)).toContain(200);

    await install(await clients.issue('brief', 3_000));
    await untilUnready(watch, /401/);
    relay.closeAll(); // or the watch that is open would do for some time more
    await untilUnready(watch, /no watch of .*401/s);

    await install(await clients.issue('second'));
    await untilTold(await edit(connection, '2ms'));
    await watch.untilReady();
    expect((await requestsOf('second')).map(({ code }) => code)).toContain(200);
    expect(watch.isRunning).toBe(true);
  });

  test('goes by the proxy that the environment names', async () => {
    const asked: string[] = [];
    const api = new URL(kubernetes.api.url);
    const proxy = createServer().on('connect', ({ url = '' }, socket) => {
      asked.push(url);
      const upstream = connect(Number(api.port), api.hostname, () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
        socket.pipe(upstream).pipe(socket);
      });
      for (const side of [socket, upstream]) side.on('error', () => {});
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void proxy.close());
    const HTTPS_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    // A name that nobody but the proxy can resolve; the API server's certificate has it.
    const kubeconfig = await kubernetes.kubeconfig({ server: 'https://kubernetes.default.svc' });

    await startWatch(kubeconfig, [], { HTTPS_PROXY, NO_PROXY: '10.0.0.0/8' });
    await untilTold(await newConnection());
    expect([...new Set(asked)]).toEqual(['kubernetes.default.svc:443']);
  });
});
