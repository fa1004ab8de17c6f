import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { KubernetesChangeFeed } from '../../shared/adapters/kubernetes-change-feed.ts';
import type { ApiRequest, KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { KubernetesSchemaWatch } from '../../shared/adapters/kubernetes-schema-watch.ts';
import { readClusterUid, setupCrds } from '../../shared/adapters/kubernetes-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { Connection, ConnectionRef } from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import { gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import { accountToken, applyObject, NAMESPACE, renderChart } from '../support/chart.ts';
import { eventually } from '../support/eventually.ts';
import { crdFolder, KubernetesUnderTest } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const OURS = 'tenant-a';
const OTHER = 'tenant-b';
const ROME: ConnectionRef = { namespace: OURS, name: 'gw-rome' };
const NETWORKING = '/apis/networking.liqo.io/v1beta1';
const ACCOUNT_KINDS = ['ServiceAccount', 'ClusterRole', 'ClusterRoleBinding', 'RoleBinding'];
const FUNCTIONS = CATALOG.map(({ manifest }) => manifest.name);
const SILENT_AFTER_MS = 2_000;
const APPLY = 'application/apply-patch+yaml';

const connection = (namespace = OURS, name = 'gw-rome') => `${NETWORKING}/namespaces/${namespace}/connections/${name}`;
const emptyConnection = { apiVersion: 'networking.liqo.io/v1beta1', kind: 'Connection', metadata: { name: 'gw-new' } };
const statusPatch = (namespace?: string): ApiRequest => ({
  ...{ method: 'PATCH', path: `${connection(namespace)}/status`, contentType: APPLY },
  query: { fieldManager: 'liqo-tunnel', force: true },
  body: { apiVersion: 'networking.liqo.io/v1beta1', kind: 'Connection', metadata: { name: 'gw-rome' } },
});
const get = (path: string): ApiRequest => ({ method: 'GET', path });

/** What none of them may do, the setup included. */
const NOBODY: Readonly<Record<string, ApiRequest>> = {
  'read Secrets': get(`/api/v1/namespaces/${OURS}/secrets`),
  'read Secrets of its own namespace': get(`/api/v1/namespaces/${NAMESPACE}/secrets`),
  'read ConfigMaps': get(`/api/v1/namespaces/${OURS}/configmaps`),
  'list pods': get('/api/v1/pods'),
  'delete a Connection': { method: 'DELETE', path: connection() },
  'delete all Connections': { method: 'DELETE', path: `${NETWORKING}/namespaces/${OURS}/connections` },
  'replace a status': { method: 'PUT', path: `${connection()}/status`, body: emptyConnection },
  'patch a spec': { ...statusPatch(), path: connection() },
  'create a PublicKey': { method: 'POST', path: `${NETWORKING}/namespaces/${OURS}/publickeies`, body: {} },
  'delete the CRD': {
    method: 'DELETE',
    path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/connections.networking.liqo.io',
  },
  'read another CRD': get('/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.example.org'),
  'list CRDs': get('/apis/apiextensions.k8s.io/v1/customresourcedefinitions'),
  'give itself rights': {
    ...{ method: 'POST', path: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings' },
    body: {
      ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding', metadata: { name: 'mine' } },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [],
    },
  },
};

/** What most may not do, and who may. */
const SOME: Readonly<Record<string, { readonly request: ApiRequest; readonly but: readonly string[] }>> = {
  'read a Connection': {
    request: get(connection()),
    but: ['tunnel-status', 'connection-aggregate', 'connection-ensure', 'gateway-silence'],
  },
  'list Connections': {
    request: get(`${NETWORKING}/namespaces/${OURS}/connections`),
    but: ['connection-watch', 'page'],
  },
  'list PublicKeys': { request: get(`${NETWORKING}/namespaces/${OURS}/publickeies`), but: ['connection-watch'] },
  'write a status': {
    request: { ...statusPatch(), query: { fieldManager: 'liqo-tunnel', force: true, dryRun: 'All' } },
    but: ['tunnel-status', 'connection-aggregate', 'connection-ensure'],
  },
  'create a Connection': {
    request: {
      ...{ method: 'POST', path: `${NETWORKING}/namespaces/${OURS}/connections`, query: { dryRun: 'All' } },
      body: emptyConnection,
    },
    but: ['connection-ensure'],
  },
  'read its CRD': {
    request: get('/apis/apiextensions.k8s.io/v1/customresourcedefinitions/connections.networking.liqo.io'),
    but: ['setup'],
  },
};

await describeReal("the chart's accounts, with their own tokens", ['helm', 'etcd', 'kube-apiserver'], () => {
  let kubernetes: KubernetesUnderTest;
  const clients = new Map<string, KubernetesClient>();
  const clientOf = (name: string) => clients.get(name) as KubernetesClient;

  beforeAll(async () => {
    kubernetes = await KubernetesUnderTest.start({ crds: false });
    for (const name of [NAMESPACE, OURS, OTHER]) {
      await applyObject(kubernetes.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    }
    const objects = await renderChart({ watchNamespaces: [OURS], page: { enabled: true } });
    for (const object of objects.filter(({ kind }) => ACCOUNT_KINDS.includes(kind))) {
      await applyObject(kubernetes.admin, object);
    }
    for (const name of [...FUNCTIONS, 'setup', 'page']) {
      clients.set(
        name,
        await kubernetes.client({ user: { token: await accountToken(kubernetes.admin, `wg-wg-keepalive-${name}`) } }),
      );
    }
  });
  afterAll(() => kubernetes[Symbol.asyncDispose]());

  it('let setup install the CRDs, mend them and tell the cluster by its uid', async () => {
    const options = { folder: crdFolder, clock: systemClock };
    expect(await setupCrds(clientOf('setup'), options)).toMatchObject([{ change: 'created' }, { change: 'created' }]);
    await removeTunnelsFromCrd(kubernetes.admin);
    expect(await setupCrds(clientOf('setup'), options)).toMatchObject([{ change: 'extended' }, { change: 'none' }]);
    expect(await readClusterUid(clientOf('setup'))).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('let the functions do all that they do', async () => {
    const world = startFunctions(clientOf);
    try {
      const { sequence: epoch } = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
      const read = () => readConnection(kubernetes.admin);
      let sequence = 0; // like a gateway: one that came before the listing does not count
      await eventually(async () => {
        sequence += 1;
        for (const interfaceId of ['liqo-tunnel', 'liqo-tunnel1']) await world.observe(epoch, sequence, interfaceId);
        return (await read())?.status?.value === 'Connected';
      }, 'Connected');

      await coOwn(kubernetes.admin, 'liqo-tunnel1'); // so that taking it away needs the JSON patch
      const second = await world.announce(['liqo-tunnel']);
      await eventually(async () => (await read())?.status?.tunnels?.length === 1, 'the tunnel that is gone');
      expect(second.sequence).toBeGreaterThan(epoch);
      await eventually(
        async () => (await read())?.status?.tunnels?.[0]?.reason === 'GatewaySilent',
        'the silence noticed',
      );
      await relabel(kubernetes.admin);
      await eventually(
        async () => (await read())?.metadata.labels?.['liqo.io/remote-cluster-id'] === 'milan',
        'the label mended',
      );
      for (const name of FUNCTIONS) expect(world.healthOf(name), name).toEqual({ ok: true });
      expect(world.forbidden).toEqual([]);
    } finally {
      await world.stop();
    }
  });

  describe.each([...FUNCTIONS, 'setup'])('refuse %s', (name) => {
    it.each(Object.entries(NOBODY))('to %s', async (_what, request) => {
      expect(await answerTo(clientOf(name), request)).toBe(403);
    });

    it('what only others may', async () => {
      for (const [what, { request, but }] of Object.entries(SOME)) {
        const answer = await answerTo(clientOf(name), request);
        if (but.includes(name)) expect(answer, what).not.toBe(403);
        else expect(answer, what).toBe(403);
      }
    });

    it('everything in a namespace that is not watched', async () => {
      const elsewhere = [
        ...['connections', 'publickeies'].map((plural) => get(`${NETWORKING}/namespaces/${OTHER}/${plural}`)),
        ...[get(connection(OTHER)), statusPatch(OTHER), get(`${NETWORKING}/connections`)],
        { method: 'POST', path: `${NETWORKING}/namespaces/${OTHER}/connections`, body: emptyConnection } as const,
      ];
      for (const request of elsewhere) expect(await answerTo(clientOf(name), request), request.path).toBe(403);
    });
  });
});

/** The HTTP status, of a refusal too. */
async function answerTo(client: KubernetesClient, request: ApiRequest): Promise<number> {
  return client.call(request).then(
    ({ status }) => status,
    (error: { readonly status: number }) => error.status,
  );
}

async function readConnection(client: KubernetesClient): Promise<Connection | undefined> {
  return client.call<Connection>(get(connection())).then(
    ({ body }) => body,
    () => undefined,
  );
}

/** As a Liqo of before has it. */
async function removeTunnelsFromCrd(admin: KubernetesClient): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/connections.networking.liqo.io';
  const at = '/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/tunnels';
  await admin.call({
    ...{ method: 'PATCH', path, contentType: 'application/json-patch+json' },
    body: [{ op: 'remove', path: at }],
  });
}

/** Another manager has its hand on the tunnel's entry from here on. */
async function coOwn(admin: KubernetesClient, interfaceID: string): Promise<void> {
  const body = {
    ...(statusPatch().body as object),
    status: { tunnels: [{ interfaceID, value: 'Connected', message: 'looked at' }] },
  };
  await admin.call({ ...statusPatch(), query: { fieldManager: 'kubectl', force: true }, body });
}

async function relabel(admin: KubernetesClient): Promise<void> {
  await admin.call({
    ...{ method: 'PATCH', path: connection(), contentType: 'application/merge-patch+json' },
    body: { metadata: { labels: { 'liqo.io/remote-cluster-id': 'elsewhere' } } },
  });
}

/** One replica of each function on an embedded bus, at the real API server as its own account. */
function startFunctions(clientOf: (name: string) => KubernetesClient) {
  const broker = new EmbeddedBroker({ clock: systemClock });
  const state = new EmbeddedStateStore();
  const outside = new EmbeddedBus(broker, systemClock);
  const stop = new AbortController();
  const forbidden: string[] = [];
  const health = new Map<string, KubernetesSchemaWatch>();
  const running = CATALOG.map((definition) => {
    const { name } = definition.manifest;
    const client = clientOf(name);
    const schema = new KubernetesSchemaWatch(client, { clock: systemClock, onChange: () => {} });
    health.set(name, schema);
    const meter = {
      count: (_metric: string, labels: Readonly<Record<string, string>> = {}) => {
        if (labels.code === '403') forbidden.push(`${name} ${JSON.stringify(labels)}`);
      },
      ...{ gauge() {}, observe() {}, remove() {} },
    };
    const ports = {
      ...{ state, meter, clock: systemClock, log: silentLogger },
      bus: new EmbeddedBus(broker, systemClock),
      connections: new KubernetesConnectionStore(client),
      feed: new KubernetesChangeFeed(client, { clock: systemClock, random: Math.random, namespaces: [OURS] }),
    };
    const settings = { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: SILENT_AFTER_MS };
    return Promise.all([schema.run(stop.signal), runReplica(definition, ports, settings, stop.signal)]);
  });

  const publish = (subject: string, type: string, data: unknown) =>
    outside.publish(encodeCloudEvent(subject, { id: crypto.randomUUID(), source: '/test', type, data }));
  const at = () => new Date(systemClock.unixMs()).toISOString();
  return {
    forbidden,
    healthOf: (name: string) => health.get(name)?.health(),
    announce(interfaces: readonly string[]) {
      const data: GatewayAnnouncement = {
        ...{ namespace: OURS, connection: ROME.name, gatewayName: 'rome', gatewayUid: 'gateway-uid', mode: 'server' },
        ...{ remoteClusterId: 'milan', interfaces, announcedAt: at() },
      };
      return publish(gatewaySubject(ROME), GATEWAY_TYPE, data);
    },
    observe(gatewayEpoch: number, sequence: number, interfaceId: string) {
      const data: Observation = {
        ...{ namespace: OURS, connection: ROME.name, interfaceId, gatewayEpoch, sequence, monotonicMs: sequence },
        ...{ kind: 'pong', value: 'Connected', rttNs: 1_000_000, observedAt: at() },
      };
      return publish(observationSubject(ROME, interfaceId), OBSERVATION_TYPE, data);
    },
    async stop() {
      stop.abort();
      await Promise.all(running);
    },
  };
}
