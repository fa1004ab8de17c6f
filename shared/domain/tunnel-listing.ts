import {
  CONNECTION_API_VERSION,
  type Connection,
  type DesiredConnection,
  REMOTE_CLUSTER_ID_LABEL,
} from './connection.ts';
import type { GatewayAnnouncement } from './gateway-announcement.ts';

/** Which tunnels a Connection lists, from what its gateway announced. */

export type ListingPlan = {
  /** Configured, and the status has no entry of them, or one without a value (what a half-removed entry leaves). */
  readonly missing: readonly string[];
  /** In the status, and not configured. */
  readonly stale: readonly string[];
};

export function planListing(connection: Connection, interfaces: readonly string[]): ListingPlan {
  const entries = connection.status?.tunnels ?? [];
  const complete = new Set(entries.filter((entry) => entry.value !== undefined).map((entry) => entry.interfaceID));
  const configured = new Set(interfaces);
  return {
    missing: interfaces.filter((id) => !complete.has(id)),
    stale: entries.map((entry) => entry.interfaceID).filter((id) => !configured.has(id)),
  };
}

/** The Connection that a gateway's announcement asks for. */
export function desiredConnection(gateway: GatewayAnnouncement): DesiredConnection {
  const type = gateway.mode === 'server' ? 'Server' : 'Client';
  const uid = gateway.gatewayUid;
  return {
    metadata: {
      namespace: gateway.namespace,
      name: gateway.connection,
      labels: { [REMOTE_CLUSTER_ID_LABEL]: gateway.remoteClusterId },
      ownerReferences:
        uid === undefined
          ? []
          : [{ apiVersion: CONNECTION_API_VERSION, kind: `Gateway${type}`, name: gateway.gatewayName, uid }],
    },
    spec: {
      type,
      gatewayRef: {
        apiVersion: CONNECTION_API_VERSION,
        kind: `WgGateway${type}`,
        name: gateway.gatewayName,
        namespace: gateway.namespace,
        ...(uid === undefined ? {} : { uid }),
      },
    },
  };
}
