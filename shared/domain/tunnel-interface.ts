/** Names and addresses of the parallel tunnels of one gateway pair. */

export const MAX_TUNNELS = 64;

export const GATEWAY_MODES = ['server', 'client'] as const;
/** Which end of the tunnels a gateway is: a server waits, a client knows where to find it. */
export type GatewayMode = (typeof GATEWAY_MODES)[number];

export type TunnelAddresses = { readonly interfaceId: string; readonly local: string; readonly peer: string };

/** Index 0 is `liqo-tunnel`, index i is `liqo-tunnel<i>`. */
export function interfaceIdOf(index: number): string {
  return index === 0 ? 'liqo-tunnel' : `liqo-tunnel${index}`;
}

/** 169.254.18.0/24 split in /30s: the server has the first address of each, the client the second. */
export function derivedTunnel(index: number, mode: GatewayMode): TunnelAddresses {
  if (!Number.isInteger(index) || index < 0 || index >= MAX_TUNNELS) {
    throw new RangeError(`tunnel index ${index}: want an integer from 0 to ${MAX_TUNNELS - 1}`);
  }
  const server = `169.254.18.${4 * index + 1}`;
  const client = `169.254.18.${4 * index + 2}`;
  return {
    interfaceId: interfaceIdOf(index),
    local: mode === 'server' ? server : client,
    peer: mode === 'server' ? client : server,
  };
}

/** One side of a tunnel with its ports; where two gateways share a host (labs), those may differ. */
export type TunnelEndpoint = {
  readonly interfaceId: string;
  readonly local: { readonly address: string; readonly port: number };
  readonly peer: { readonly address: string; readonly port: number };
};

export function endpointOf({ interfaceId, local, peer }: TunnelAddresses, port: number): TunnelEndpoint {
  return { interfaceId, local: { address: local, port }, peer: { address: peer, port } };
}
