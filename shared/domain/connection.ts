/** The resource that everybody reads: `networking.liqo.io/v1beta1` Connection, in the Kubernetes form. */

export const CONNECTION_API_VERSION = 'networking.liqo.io/v1beta1';
export const REMOTE_CLUSTER_ID_LABEL = 'liqo.io/remote-cluster-id';

/** Field manager of `status.value`, `status.latency` and `status.conditions`. */
export const AGGREGATE_FIELD_MANAGER = 'connection-aggregate';

export type ConnectionValue = 'Connected' | 'Connecting' | 'Error';

/** `value` is a duration that Go's `time.ParseDuration` reads, `timestamp` is RFC 3339. */
export type Latency = { readonly value: string; readonly timestamp: string };

/** One entry of `status.tunnels`, a map keyed by `interfaceID`; each is owned by the field manager of the same name. */
export type TunnelEntry = {
  readonly interfaceID: string;
  readonly value: ConnectionValue;
  /** Absent unless measured: a missing value is never a healthy zero. */
  readonly latency?: Latency;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
};

/** The `metav1.Condition` of Kubernetes. */
export type Condition = {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
};

/** What connection-aggregate owns of the status. */
export type AggregateStatus = {
  readonly value: ConnectionValue;
  readonly latency?: Latency;
  readonly conditions: readonly Condition[];
};

export type ConnectionStatus = Partial<AggregateStatus> & {
  readonly tunnels?: readonly TunnelEntry[];
};

export type OwnerReference = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** Never set by us: the gateway's own controller is no controller of the Connection. */
  readonly controller?: boolean;
};

export type ConnectionSpec = {
  readonly type: 'Server' | 'Client';
  readonly gatewayRef: {
    readonly apiVersion: string;
    readonly kind: 'WgGatewayServer' | 'WgGatewayClient';
    readonly name: string;
    readonly namespace: string;
    readonly uid?: string;
  };
};

/** Names a Connection: two namesakes over time are told apart by `metadata.uid` only. */
export type ConnectionRef = { readonly namespace: string; readonly name: string };

export type ManagedFields = {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly time?: string;
  readonly fieldsV1?: unknown;
};

export type ObjectMeta = ConnectionRef & {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly managedFields?: readonly ManagedFields[];
};

export type Connection = {
  readonly metadata: ObjectMeta;
  readonly spec: ConnectionSpec;
  readonly status?: ConnectionStatus;
};

/** What connection-ensure wants to exist: everything of a Connection but its status. */
export type DesiredConnection = {
  readonly metadata: ConnectionRef & {
    readonly labels: Readonly<Record<string, string>>;
    readonly ownerReferences: readonly OwnerReference[];
  };
  readonly spec: ConnectionSpec;
};

/** A WireGuard key of a remote cluster; its label leads to the Connection. */
export type PublicKey = {
  readonly metadata: ObjectMeta;
  readonly spec: { readonly publicKey: string };
};

/** `NAMESPACE/NAME`, as people and logs write it. */
export function connectionKey(ref: ConnectionRef): string {
  return `${ref.namespace}/${ref.name}`;
}

/** The Connection of a gateway is called `gw-<gateway name>`. */
export function connectionNameOf(gatewayName: string): string {
  return `gw-${gatewayName}`;
}

/** Order of Kubernetes resource versions: decimal integers of any length, compared without losing digits. */
export function isNewerResourceVersion(candidate: string, than: string): boolean {
  return candidate.length === than.length ? candidate > than : candidate.length > than.length;
}
