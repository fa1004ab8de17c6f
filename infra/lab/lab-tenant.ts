import type { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { CONNECTION_API_VERSION, REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import type { LAB_GATEWAYS } from './lab.ts';
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
