import type { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import {
  CONNECTION_API_VERSION,
  type Connection,
  connectionNameOf,
  REMOTE_CLUSTER_ID_LABEL,
} from '../../shared/domain/connection.ts';
import { LAB_GATEWAYS } from './lab.ts';
import { createWireguardKeys } from './wireguard-device.ts';

/**
 * What a gateway finds in its cluster: its namespace, and the PublicKey of the remote cluster.
 *
 * @throws StoreError if the API server refuses
 */
export async function createTenant(client: KubernetesClient, gateway: (typeof LAB_GATEWAYS)[number]): Promise<void> {
  const { namespace, name, clusterId } = gateway;
  await client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: namespace } } });
  await client.call({
    method: 'POST',
    path: `/apis/${CONNECTION_API_VERSION}/namespaces/${namespace}/publickeies`,
    body: {
      apiVersion: CONNECTION_API_VERSION,
      kind: 'PublicKey',
      metadata: { name: `gw-${name}`, namespace, labels: { [REMOTE_CLUSTER_ID_LABEL]: clusterId } },
      spec: { publicKey: createWireguardKeys().publicKey },
    },
  });
}

/** The lab's Connections as the API server shows them now; a missing one is left out. */
export async function tenantConnections(client: KubernetesClient): Promise<readonly Connection[]> {
  const store = new KubernetesConnectionStore(client);
  const found = await Promise.all(
    LAB_GATEWAYS.map(({ namespace, name }) => store.get({ namespace, name: connectionNameOf(name) })),
  );
  return found.filter((connection) => connection !== undefined);
}
