import { readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { KubernetesChangeFeed } from '../../shared/adapters/kubernetes-change-feed.ts';
import type { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { readClusterUid, setupCrds } from '../../shared/adapters/kubernetes-setup.ts';
import { systemClock as clock } from '../../shared/adapters/system-clock.ts';
import type { Change } from '../../shared/domain/change.ts';
import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { aggregate, codeOf, connected, desiredConnection, failed } from '../contract/connection-store.contract.ts';
import { crdFolder, KubernetesUnderTest } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';

const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const CONNECTIONS_CRD = `${CRDS}/connections.networking.liqo.io`;
const LONG = { timeout: 60_000 };

type RawCrd = {
  metadata: { resourceVersion?: string };
  spec: {
    versions: { schema: { openAPIV3Schema: { properties: { status: { properties: Record<string, unknown> } } } } }[];
  };
};

async function ourCrd(): Promise<RawCrd> {
  return parse(await readFile(join(crdFolder, 'networking.liqo.io_connections.yaml'), 'utf8'));
}

function statusProperties(crd: RawCrd): Record<string, unknown> {
  return crd.spec.versions[0]?.schema.openAPIV3Schema.properties.status.properties ?? {};
}

async function put(admin: KubernetesClient, edit: (crd: RawCrd) => void): Promise<void> {
  const crd = await ourCrd();
  edit(crd);
  const live = await admin.call<RawCrd>({ method: 'GET', path: CONNECTIONS_CRD }).catch(() => undefined);
  if (live === undefined) return void (await admin.call({ method: 'POST', path: CRDS, body: crd }));
  const body = { ...crd, metadata: { ...crd.metadata, resourceVersion: live.body.metadata.resourceVersion } };
  await admin.call({ method: 'PUT', path: CONNECTIONS_CRD, body });
}

async function runFeed(feed: KubernetesChangeFeed) {
  const changes: Change[] = [];
  const stop = new AbortController();
  const run = feed.run(async (change) => void changes.push(change), stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await run;
  });
  await expect.poll(() => feed.health(), LONG).toEqual({ live: true });
  return changes;
}

await describeReal('Kubernetes: setup', ['kube-apiserver', 'etcd'], () => {
  let kubernetes: KubernetesUnderTest;
  let admin: KubernetesClient;

  beforeAll(async () => {
    kubernetes = await KubernetesUnderTest.start({ crds: false, users: [{ name: 'nobody' }, { name: 'reader' }] });
    admin = kubernetes.admin;
    const reader = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'reader' };
    const rules = [{ apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: ['get'] }];
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    const metadata = { name: 'reader' };
    await admin.call({ method: 'POST', path: `${rbac}/clusterroles`, body: { metadata, rules } });
    const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'reader' }];
    const binding = { metadata, roleRef: reader, subjects };
    await admin.call({ method: 'POST', path: `${rbac}/clusterrolebindings`, body: binding });
  }, 120_000);
  afterAll(() => kubernetes[Symbol.asyncDispose](), 60_000);

  const setup = (client = admin, mode: 'install' | 'check' = 'install') =>
    setupCrds(client, { folder: crdFolder, clock, mode });

  test('a missing CRD is a schema fault of every call, not a missing object', async () => {
    const store = new KubernetesConnectionStore(admin);
    const ref: ConnectionRef = { namespace: 'default', name: 'gw-alpha' };
    expect(await codeOf(store.get(ref))).toBe('schema');
    expect(await codeOf(store.applyTunnel(ref, connected('liqo-tunnel')))).toBe('schema');
    await expect(setup(admin, 'check')).rejects.toMatchObject({
      code: 'missing',
      message: expect.stringContaining('connections.networking.liqo.io is not installed, and this run only checks'),
    });
  });

  test('C16: installs the CRDs with the keys by which entries of two managers live side by side', LONG, async () => {
    expect(await setup()).toEqual([
      { name: 'connections.networking.liqo.io', change: 'created' },
      { name: 'publickeies.networking.liqo.io', change: 'created' },
    ]);

    const { body } = await admin.call<RawCrd>({ method: 'GET', path: CONNECTIONS_CRD });
    expect(statusProperties(body).tunnels).toMatchObject({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['interfaceID'],
    });
    const store = new KubernetesConnectionStore(admin);
    const { connection } = await store.ensure(desiredConnection(await kubernetes.namespace()));
    await store.applyTunnel(connection.metadata, connected('liqo-tunnel'));
    const { status } = await store.applyTunnel(connection.metadata, failed('liqo-tunnel1'));
    expect(status?.tunnels).toEqual([connected('liqo-tunnel'), failed('liqo-tunnel1')]);
  });

  test('changes nothing where nothing is missing, also without the right to', async () => {
    const reader = await kubernetes.client({ user: { token: kubernetes.api.tokenOf('reader') } });
    const before = await admin.call<RawCrd>({ method: 'GET', path: CONNECTIONS_CRD });

    const changes = [...(await setup()), ...(await setup(reader))].map(({ change }) => change);

    expect(changes).toEqual(['none', 'none', 'none', 'none']);
    expect(await admin.call({ method: 'GET', path: CONNECTIONS_CRD })).toEqual(before);
  });

  test('closes the gaps of an older CRD, and until then writes are schema faults', LONG, async () => {
    const store = new KubernetesConnectionStore(admin);
    const { connection } = await store.ensure(desiredConnection(await kubernetes.namespace()));
    const write = () => codeOf(store.applyTunnel(connection.metadata, connected('liqo-tunnel')));
    await put(admin, (crd) => {
      delete statusProperties(crd).tunnels;
      statusProperties(crd).score = { type: 'integer' };
    });
    await expect.poll(write, LONG).toBe('schema');
    const reader = await kubernetes.client({ user: { token: kubernetes.api.tokenOf('reader') } });
    await expect(setup(reader)).rejects.toMatchObject({
      code: 'outdated',
      message: expect.stringMatching(/lacks what we need \(status.tunnels is missing\), and we may not change it/),
    });

    expect((await setup()).map(({ change }) => change)).toEqual(['extended', 'none']);

    await expect.poll(write, LONG).toBe('resolved');
    const { body } = await admin.call<RawCrd>({ method: 'GET', path: CONNECTIONS_CRD });
    expect(statusProperties(body).score).toEqual({ type: 'integer' });
  });

  test('mends a CRD whose list type a typed client lost', LONG, async () => {
    await put(admin, (crd) => {
      const tunnels = statusProperties(crd).tunnels as Record<string, unknown>;
      delete tunnels['x-kubernetes-list-type'];
      delete tunnels['x-kubernetes-list-map-keys'];
    });
    await expect(setup(admin, 'check')).rejects.toMatchObject({
      code: 'outdated',
      message: expect.stringContaining('status.tunnels has x-kubernetes-list-type unset, not "map"'),
    });

    expect((await setup()).map(({ change }) => change)).toEqual(['extended', 'none']);
  });

  test('says that it may not even look', async () => {
    const nobody = await kubernetes.client({ user: { token: kubernetes.api.tokenOf('nobody') } });

    await expect(setup(nobody)).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining('grant "get" on customresourcedefinitions'),
    });
    expect(await codeOf(new KubernetesConnectionStore(nobody).get({ namespace: 'default', name: 'x' }))).toBe(
      'forbidden',
    );
  });

  test('prints the columns of Connections and knows their short names', async () => {
    const { body } = await admin.call<{ resources: { name: string; shortNames?: string[]; categories?: string[] }[] }>({
      method: 'GET',
      path: '/apis/networking.liqo.io/v1beta1',
    });
    const named = Object.fromEntries(body.resources.map(({ name, shortNames }) => [name, shortNames]));
    expect(named).toMatchObject({ connections: ['conn'], publickeies: ['pk', 'pkies', 'pkey'] });
    expect(body.resources.every(({ name, categories }) => name.includes('/') || categories?.[0] === 'liqo')).toBe(true);
  });

  test('tells one cluster from another', async () => {
    const uid = await readClusterUid(admin);

    expect(uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(await readClusterUid(admin)).toBe(uid);
  });
});

type AuditEvent = {
  verb: string;
  requestURI: string;
  objectRef: { subresource?: string };
  responseStatus: { code: number };
  requestObject?: unknown;
  user: { username: string };
};

await describeReal('Kubernetes: writes and watches', ['kube-apiserver', 'etcd'], () => {
  let kubernetes: KubernetesUnderTest;
  const timing = { windowMs: 3_000, graceMs: 1_000, backOffMs: 50, maxBackOffMs: 500 };

  beforeAll(async () => {
    kubernetes = await KubernetesUnderTest.start({ audit: true });
  }, 120_000);
  afterAll(() => kubernetes[Symbol.asyncDispose](), 60_000);

  const feedThrough = (client: KubernetesClient, namespace: string, overrides: Partial<typeof timing> = {}) =>
    new KubernetesChangeFeed(client, {
      ...{ clock, random: Math.random, namespaces: [namespace], timing: { ...timing, ...overrides } },
    });

  async function auditOf(namespace: string): Promise<AuditEvent[]> {
    const lines = (await readFile(kubernetes.api.auditLogFile ?? '', 'utf8')).trim().split('\n');
    const events = lines.map((line) => JSON.parse(line) as AuditEvent);
    return events.filter(({ requestURI }) => requestURI.includes(`/${namespace}/`));
  }

  test('C14: every status write is an apply on /status by the manager of its fields', async () => {
    const namespace = await kubernetes.namespace();
    const store = new KubernetesConnectionStore(kubernetes.admin);
    const { connection } = await store.ensure(desiredConnection(namespace));
    const ref = connection.metadata;
    await store.applyTunnel(ref, connected('liqo-tunnel'));
    await store.applyTunnel(ref, failed('liqo-tunnel1'));
    await store.applyAggregate(ref, aggregate);
    await store.removeTunnel(ref, 'liqo-tunnel1');
    await codeOf(store.applyAggregate(ref, aggregate, { resourceVersion: '1' }));

    const writes = (await auditOf(namespace)).filter(({ verb }) => verb !== 'get');
    const path = `/apis/networking.liqo.io/v1beta1/namespaces/${namespace}/connections`;
    const apply = (manager: string) => `patch ${path}/gw-alpha/status?fieldManager=${manager}&force=true`;
    expect(writes.map(({ verb, requestURI }) => `${verb} ${requestURI}`)).toEqual([
      `create ${path}?fieldManager=connection-ensure`,
      apply('liqo-tunnel'),
      apply('liqo-tunnel1'),
      apply('connection-aggregate'),
      apply('liqo-tunnel1'),
      apply('connection-aggregate'),
    ]);
    expect(writes.map(({ responseStatus }) => responseStatus.code)).toEqual([201, 200, 200, 200, 200, 409]);
    // Only Server-Side Apply takes fieldManager with force, and only it records the operation Apply.
    const live = await store.get(ref);
    const owners = (live?.metadata.managedFields ?? []).map(
      (field) => `${field.operation} ${field.manager} ${field.subresource}`,
    );
    expect(owners.sort()).toEqual([
      'Apply connection-aggregate status',
      'Apply liqo-tunnel status',
      'Update connection-ensure undefined',
    ]);
    expect(JSON.stringify(writes[4]?.requestObject)).not.toContain('status');
  });

  test('C18: writes go on when the token file has another token and the old one is revoked', LONG, async () => {
    const namespace = await kubernetes.namespace();
    const tokenFile = join(kubernetes.folder, 'token');
    const token = await kubernetes.tokenOfNewAccount(namespace, 'before');
    const witness = new KubernetesConnectionStore(await kubernetes.client({ user: { token } }));
    await writeFile(tokenFile, token);
    const store = new KubernetesConnectionStore(await kubernetes.client({ user: { tokenFile } }));
    const ref = (await store.ensure(desiredConnection(namespace))).connection.metadata;
    await store.applyTunnel(ref, connected('liqo-tunnel', '1ms'));

    await writeFile(tokenFile, await kubernetes.tokenOfNewAccount(namespace, 'after'));
    await kubernetes.admin.call({ method: 'DELETE', path: `/api/v1/namespaces/${namespace}/serviceaccounts/before` });
    // The API server trusts a token that it knows for ten seconds more.
    for (let round = 2; (await codeOf(witness.get(ref))) !== 'forbidden'; round++) {
      await store.applyTunnel(ref, connected('liqo-tunnel', `${round}ms`));
      await clock.sleep(100);
    }
    const { status } = await store.applyTunnel(ref, connected('liqo-tunnel', '999ms'));

    expect(status?.tunnels).toEqual([connected('liqo-tunnel', '999ms')]);
    const writers = (await auditOf(namespace)).filter(({ verb }) => verb === 'patch').map(({ user }) => user.username);
    const accounts = ['before', 'after'].map((name) => `system:serviceaccount:${namespace}:${name}`);
    expect([...new Set(writers)]).toEqual(accounts);
  });

  test('C19: fifty watches that are cut off leave no socket behind', LONG, async () => {
    const namespace = await kubernetes.namespace();
    const { relay, server } = await kubernetes.relay();
    const client = await kubernetes.client({ server });
    const feed = feedThrough(client, namespace, { backOffMs: 5, maxBackOffMs: 20 });
    const changes = await runFeed(feed);
    const store = new KubernetesConnectionStore(kubernetes.admin);
    const { connection } = await store.ensure(desiredConnection(namespace));
    const atStart = { open: relay.open, established: await socketsTo(relay.port) };
    expect(atStart.open).toBe(2);

    for (let round = 1; round <= 50; round++) {
      relay.closeAll();
      await store.applyTunnel(connection.metadata, connected('liqo-tunnel', `${round}ms`));
      await expect.poll(() => changes.length, { ...LONG, interval: 5 }).toBeGreaterThan(round);
    }

    await expect.poll(() => feed.health(), { ...LONG, interval: 5 }).toEqual({ live: true });
    expect(relay.open).toBeLessThanOrEqual(atStart.open + 2);
    expect(await socketsTo(relay.port)).toBeLessThanOrEqual(atStart.established + 2);
    expect(changes.map(({ type }) => type)).toEqual(['ADDED', ...Array.from({ length: 50 }, () => 'MODIFIED')]);
  });

  test('keeps its watch sockets over the ends of windows', LONG, async () => {
    const { relay, server } = await kubernetes.relay();
    const client = await kubernetes.client({ server });
    const feed = feedThrough(client, await kubernetes.namespace(), { windowMs: 1_000 });
    await runFeed(feed);
    const before = relay.accepted;

    const healths = new Set<boolean>();
    const untilMs = clock.monotonicMs() + 3_500;
    while (clock.monotonicMs() < untilMs) {
      healths.add(feed.health().live);
      await clock.sleep(20);
    }

    expect(relay.accepted).toBe(before);
    expect([...healths]).toEqual([true]);
  });

  test('C17: a watch behind a blackhole is noticed, and taken up once the way is open', LONG, async () => {
    const namespace = await kubernetes.namespace();
    const { relay, server } = await kubernetes.relay();
    const client = await kubernetes.client({ server }, { callTimeoutMs: 1_000 });
    const feed = feedThrough(client, namespace);
    const changes = await runFeed(feed);
    const store = new KubernetesConnectionStore(kubernetes.admin);

    relay.blackhole();
    await expect.poll(() => feed.health().live, LONG).toBe(false);
    await kubernetes.api.restart();
    await store.ensure(desiredConnection(namespace));
    expect(changes).toEqual([]);
    relay.heal();

    await expect.poll(() => changes.map(({ type }) => type), LONG).toEqual(['ADDED']);
    await expect.poll(() => feed.health(), LONG).toEqual({ live: true });
  });

  test('a feed lives through a restart of the API server', LONG, async () => {
    const namespace = await kubernetes.namespace();
    const feed = feedThrough(await kubernetes.client(), namespace);
    const changes = await runFeed(feed);

    await kubernetes.api.kill();
    await expect.poll(() => feed.health().live, LONG).toBe(false);
    await kubernetes.api.restart();
    await new KubernetesConnectionStore(kubernetes.admin).ensure(desiredConnection(namespace));

    await expect.poll(() => changes.map(({ type }) => type), LONG).toEqual(['ADDED']);
    await expect.poll(() => feed.health(), LONG).toEqual({ live: true });
  });

  test('a feed tells what happened in a gap of which the API server knows nothing any more', LONG, async () => {
    const namespace = await kubernetes.namespace();
    const store = new KubernetesConnectionStore(kubernetes.admin);
    const gone = (await store.ensure(desiredConnection(namespace, 'gone'))).connection;
    const moved = (await store.ensure(desiredConnection(namespace, 'moved'))).connection;
    const { relay, server } = await kubernetes.relay();
    const feed = feedThrough(await kubernetes.client({ server }), namespace);
    const changes = await runFeed(feed);
    const lists = async () => (await auditOf(namespace)).filter(({ verb }) => verb === 'list').length;
    const before = await lists();

    relay.cut();
    const path = `/apis/networking.liqo.io/v1beta1/namespaces/${namespace}/connections/gw-gone`;
    await kubernetes.admin.call({ method: 'DELETE', path });
    await store.applyTunnel(moved.metadata, connected('liqo-tunnel'));
    await compact(kubernetes.api.etcd.url);
    await kubernetes.api.restart(); // its watch cache forgets too
    relay.heal();

    const told = () => changes.map(({ type, object }) => `${type} ${object.metadata.name}`);
    await expect.poll(told, LONG).toEqual(['ADDED gw-gone', 'ADDED gw-moved', 'DELETED gw-gone', 'MODIFIED gw-moved']);
    expect(changes[2]?.object.metadata.uid).toBe(gone.metadata.uid);
    expect(await lists()).toBeGreaterThan(before);
  });

  test('a call fails while the API server is out of reach, and works again', async () => {
    const { relay, server } = await kubernetes.relay();
    const store = new KubernetesConnectionStore(await kubernetes.client({ server }));
    const { connection } = await store.ensure(desiredConnection(await kubernetes.namespace()));

    relay.cut();
    expect(await codeOf(store.get(connection.metadata))).toBe('unavailable');
    relay.heal();

    expect(await store.get(connection.metadata)).toEqual(connection);
  });
});

/** Makes etcd forget every revision but the present one. */
async function compact(etcdUrl: string): Promise<void> {
  const post = async (path: string, body: object) =>
    (await fetch(`${etcdUrl}/v3/kv/${path}`, { method: 'POST', body: JSON.stringify(body) })).json();
  const { header } = (await post('range', { key: 'AA==' })) as { header: { revision: string } };
  await post('compaction', { revision: header.revision, physical: true });
}

/** TCP sockets of this process to a loopback port that are not yet closed on our side. */
async function socketsTo(port: number): Promise<number> {
  const CLOSED_STATES = ['06', '07']; // TIME_WAIT, CLOSE
  const own = new Set<string>();
  for (const fd of await readdir('/proc/self/fd')) {
    const target = await readlink(`/proc/self/fd/${fd}`).catch(() => '');
    own.add(target.match(/^socket:\[(\d+)]$/)?.[1] ?? '');
  }
  const lines = (await readFile('/proc/self/net/tcp', 'utf8')).trim().split('\n').slice(1);
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , remote, state, , , , , , inode]) => {
      const isThere = remote?.endsWith(`:${port.toString(16).toUpperCase().padStart(4, '0')}`);
      return isThere && !CLOSED_STATES.includes(state ?? '') && own.has(inode ?? '');
    }).length;
}
