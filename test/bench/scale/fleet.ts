import { type BusMessage, encodeCloudEvent } from '../../../shared/domain/cloud-event.ts';
import type { ConnectionRef, DesiredConnection } from '../../../shared/domain/connection.ts';
import { OBSERVATION_TYPE, type TunnelEvent } from '../../../shared/domain/observation.ts';
import { partitionOf } from '../../../shared/domain/subject-pattern.ts';
import { observationSubject } from '../../../shared/domain/subjects.ts';
import { PARTITIONS } from '../../../shared/domain/topology.ts';
import { interfaceIdOf } from '../../../shared/domain/tunnel-interface.ts';

/** Gateways as the bus sees them: so many Connections with so many tunnels each, all of one namespace. */
export type Fleet = {
  /** @defaultValue scale */
  readonly namespace?: string;
  readonly connections: number;
  /** A Connection. */
  readonly tunnels: number;
  /** How many of the partitions the Connections fall in. @defaultValue all */
  readonly partitions?: number;
};

/** A tunnel of a fleet; `index` counts through all of them. */
export type FleetTunnel = { readonly index: number; readonly ref: ConnectionRef; readonly interfaceId: string };

const EPOCH = 1_767_225_600_000;
const INTERVAL_MS = 2_000;
/** The first observations of a fleet spread over so many intervals, as gateways do that start at different times. */
const PHASES = 6;

/** Its Connections, in an order that is the same in every process. */
export function connectionsOf({
  connections,
  namespace = 'scale',
  partitions = PARTITIONS,
}: Fleet): readonly ConnectionRef[] {
  const refs: ConnectionRef[] = [];
  for (let candidate = 0; refs.length < connections; candidate++) {
    const ref = { namespace, name: `gw-${candidate}` };
    if (partitionOf(PARTITIONS, ref.namespace, ref.name) < partitions) refs.push(ref);
  }
  return refs;
}

export function tunnelsOf(fleet: Fleet): readonly FleetTunnel[] {
  return connectionsOf(fleet).flatMap((ref, c) =>
    Array.from({ length: fleet.tunnels }, (_, t) => ({
      ...{ index: c * fleet.tunnels + t, ref, interfaceId: interfaceIdOf(t) },
    })),
  );
}

/** uid of the Connection with this place in its fleet, where Connections are kept in memory. */
export const uidOf = (place: number): string => `uid-${place}`;

export function desiredConnection(ref: ConnectionRef): DesiredConnection {
  const gateway = { name: ref.name.replace('gw-', ''), namespace: ref.namespace };
  return {
    metadata: { ...ref, labels: { 'liqo.io/remote-cluster-id': gateway.name }, ownerReferences: [] },
    spec: {
      type: 'Server',
      gatewayRef: { ...gateway, apiVersion: 'networking.liqo.io/v1beta1', kind: 'WgGatewayServer' },
    },
  };
}

export function listedMessage({ ref, interfaceId }: FleetTunnel, connectionUid: string): BusMessage {
  return message(`listed.${ref.name}.${interfaceId}`, {
    ...{ namespace: ref.namespace, connection: ref.name, interfaceId, kind: 'listed' },
    ...{ connectionUid, gatewayEpoch: EPOCH, observedAt: new Date(EPOCH).toISOString() },
  });
}

/**
 * What the gateway says of a tunnel in round `round`, from 0: a PONG, or that the tunnel is down.
 * Round 0 is dated so that the throttle lets the tunnels' refreshes pass at different times later.
 */
export function observationMessage(
  { index, ref, interfaceId }: FleetTunnel,
  round: number,
  isDown = false,
): BusMessage {
  const monotonicMs = INTERVAL_MS * (round === 0 ? PHASES - 1 - (index % PHASES) : PHASES - 1 + round);
  const observedAt = new Date(EPOCH + monotonicMs).toISOString();
  return message(`run.${ref.name}.${interfaceId}.${round + 1}`, {
    ...{ namespace: ref.namespace, connection: ref.name, interfaceId, gatewayEpoch: EPOCH, sequence: round + 1 },
    ...{ monotonicMs, observedAt },
    ...(isDown
      ? { kind: 'down', value: 'Error', consecutiveMisses: 5, reason: 'Lost', message: 'no PONG' }
      : { kind: 'pong', value: 'Connected', rttNs: 1_000_000 + ((index * 7_919 + round * 104_729) % 500_000) }),
  });
}

function message(id: string, data: TunnelEvent): BusMessage {
  const ref = { namespace: data.namespace, name: data.connection };
  const source = `/gateways/${data.namespace}/${data.connection}`;
  return encodeCloudEvent(observationSubject(ref, data.interfaceId), {
    ...{ id, source, type: OBSERVATION_TYPE, time: data.observedAt, data },
  });
}
