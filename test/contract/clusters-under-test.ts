import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import type { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { KubernetesChangeFeed } from '../../shared/adapters/kubernetes-change-feed.ts';
import type { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { systemClock as clock } from '../../shared/adapters/system-clock.ts';
import type { Connection, ConnectionRef } from '../../shared/domain/connection.ts';
import { CONNECTION_API_VERSION, REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import type { KubernetesUnderTest } from '../support/kubernetes.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import type { ClusterUnderTest } from './connection-store.contract.ts';

const timing = { windowMs: 5_000, graceMs: 2_000, backOffMs: 20, maxBackOffMs: 200 };
const base = `/apis/${CONNECTION_API_VERSION}/namespaces`;

/** Everybody works on the one cluster of this process. */
export function embeddedCluster(kubernetes: EmbeddedKubernetes): ClusterUnderTest {
  let namespaces = 0;
  return {
    store: () => new EmbeddedConnectionStore(kubernetes),
    feed: (watched) => new EmbeddedChangeFeed(kubernetes, watched && { namespaces: watched }),
    namespace: async () => `namespace-${++namespaces}`,
    foreignPut: async (ref, manager, edit) => void kubernetes.foreignPut(ref, manager, edit),
    foreignApply: async (ref, manager, entry) =>
      void kubernetes.editStatus(ref, (owned, time) => owned.apply(manager, { tunnels: [entry] }, time)),
    foreignReplace: async (desired) => void kubernetes.replace(desired),
    deleteConnection: async (ref) => void kubernetes.deleteConnection(ref),
    createPublicKey: async (ref, remoteClusterId) =>
      void kubernetes.putPublicKey({
        metadata: { ...ref, labels: { [REMOTE_CLUSTER_ID_LABEL]: remoteClusterId } },
        spec: { publicKey: Buffer.alloc(32, 7).toString('base64') },
      }),
    deletePublicKey: async (ref) => void kubernetes.deletePublicKey(ref),
    whileBlind: async (during) => {
      kubernetes.cutFeeds('cut by the test');
      await during();
      kubernetes.restoreFeeds();
    },
  };
}

/** `admin` does what others do; ours goes through a relay that can be cut. */
export function realCluster(
  kubernetes: KubernetesUnderTest,
  ours: KubernetesClient,
  relay: TcpProxy,
): ClusterUnderTest {
  const { admin } = kubernetes;
  const pathOf = ({ namespace, name }: ConnectionRef) => `${base}/${namespace}/connections/${name}`;
  const read = async (ref: ConnectionRef) =>
    (await admin.call<Connection>({ method: 'GET', path: pathOf(ref) })).body as Connection & { apiVersion: string };
  return {
    store: () => new KubernetesConnectionStore(admin),
    feed: (watched) =>
      new KubernetesChangeFeed(ours, { clock, random: Math.random, timing, ...(watched && { namespaces: watched }) }),
    namespace: () => kubernetes.namespace(),
    foreignPut: async (ref, manager, edit) => {
      const live = await read(ref);
      const body = { ...live, status: edit(live.status ?? {}) };
      await admin.call({ method: 'PUT', path: `${pathOf(ref)}/status`, query: { fieldManager: manager }, body });
    },
    foreignApply: async (ref, manager, entry) => {
      const body = {
        apiVersion: CONNECTION_API_VERSION,
        kind: 'Connection',
        metadata: ref,
        status: { tunnels: [entry] },
      };
      const query = { fieldManager: manager, force: true };
      const contentType = 'application/apply-patch+yaml';
      await admin.call({ method: 'PATCH', path: `${pathOf(ref)}/status`, query, contentType, body });
    },
    foreignReplace: async ({ metadata, spec }) => {
      const live = await read(metadata);
      const body = { ...live, metadata: { ...live.metadata, ...metadata }, spec };
      await admin.call({ method: 'PUT', path: pathOf(metadata), body });
    },
    deleteConnection: async (ref) => void (await admin.call({ method: 'DELETE', path: pathOf(ref) })),
    createPublicKey: async ({ namespace, name }, remoteClusterId) => {
      const metadata = { namespace, name, labels: { [REMOTE_CLUSTER_ID_LABEL]: remoteClusterId } };
      const spec = { publicKey: Buffer.alloc(32, 7).toString('base64') };
      const body = { apiVersion: CONNECTION_API_VERSION, kind: 'PublicKey', metadata, spec };
      await admin.call({ method: 'POST', path: `${base}/${namespace}/publickeies`, body });
    },
    deletePublicKey: async ({ namespace, name }) =>
      void (await admin.call({ method: 'DELETE', path: `${base}/${namespace}/publickeies/${name}` })),
    whileBlind: async (during) => {
      relay.cut();
      await during();
      relay.heal();
    },
  };
}
