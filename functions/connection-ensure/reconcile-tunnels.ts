import { type CloudEvent, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { type Connection, type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { GatewayState } from '../../shared/domain/gateway-state.ts';
import { type Listed, OBSERVATION_TYPE, type Unlisted } from '../../shared/domain/observation.ts';
import { observationSubject, tunnelStateKey } from '../../shared/domain/subjects.ts';
import { planListing } from '../../shared/domain/tunnel-listing.ts';
import { initialEntry, type TunnelState } from '../../shared/domain/tunnel-status.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { AcceptedGateways } from './accepted-gateways.ts';
import { unlistingMarks } from './unlisting-marks.ts';

const MAX_CONFLICTS = 8;

/** Why a listing is looked at; `eventId` makes the events that follow from it repeatable. */
export type Trigger = {
  readonly eventId: string;
  /** One a call: a long list of tunnels is no reason to give up half-way. */
  readonly signal: () => AbortSignal;
};

export type ListingChange = { readonly added: readonly string[]; readonly removed: readonly string[] };

/**
 * Makes the entries of `status.tunnels` those that are configured, never touching a live one, and tells tunnel-status
 * by control events in the order of the tunnel's own subject:
 * - `unlisted` goes before the entry is taken away, so that no observation behind it brings the entry back;
 * - `listed` follows the entry, and again wherever the state that tunnel-status keeps does not know of this listing, or may
 *   not have heard yet that somebody began to take the entry away.
 */
export function tunnelsReconciler(ports: FunctionPorts, gateways: Pick<AcceptedGateways, 'of'>) {
  const { bus, connections, state, clock } = ports;
  const unlisting = unlistingMarks(ports);

  async function tell(event: Listed | Unlisted, uid: string, trigger: Trigger): Promise<void> {
    const ref = { namespace: event.namespace, name: event.connection };
    const message: CloudEvent = {
      // One occasion may concern several Connections: without what tells them apart the stream would take the second for a repeat.
      id: `${event.kind}.${event.interfaceId}.${uid}.${trigger.eventId}.${ref.namespace}.${ref.name}`,
      source: '/functions/connection-ensure',
      type: OBSERVATION_TYPE,
      time: event.observedAt,
      data: event,
    };
    await bus.publish(encodeCloudEvent(observationSubject(ref, event.interfaceId), message));
  }

  /** By a run as new as `epoch`: what an older one said last may be an `unlisted` that tunnel-status has not heard yet. */
  async function isListed(ref: ConnectionRef, interfaceId: string, uid: string, epoch: number): Promise<boolean> {
    const known = (await state.get(tunnelStateKey(ref, interfaceId)))?.value as TunnelState | undefined;
    return known?.listed === true && known.connectionUid === uid && known.gatewayEpoch >= epoch;
  }

  return reconcileTunnelsStatus;

  /** @param isNew - whatever tunnel-status seems to know, it is to be told */
  async function reconcileTunnelsStatus(
    connection: Connection,
    gateway: GatewayState,
    trigger: Trigger,
    isNew = false,
  ): Promise<ListingChange> {
    const ref = { namespace: connection.metadata.namespace, name: connection.metadata.name };
    const now = new Date(clock.unixMs()).toISOString();
    const { uid } = connection.metadata;
    const added = new Set<string>();
    const removed = new Set<string>();
    const unlisted = new Set<string>();
    const { eventId } = trigger;

    let counts = gateway;
    const about = () => ({
      namespace: ref.namespace,
      connection: ref.name,
      gatewayEpoch: counts.epoch,
      observedAt: now,
    });
    let current = connection;
    for (let conflicts = 0; ; conflicts++) {
      try {
        const plan = planListing(current, counts.announcement.interfaces);
        for (const interfaceId of plan.stale) {
          unlisted.add(interfaceId);
          await unlisting.begin(ref, interfaceId, eventId);
          await tell({ ...about(), kind: 'unlisted', interfaceId }, uid, trigger);
          current = await connections.removeTunnel(ref, interfaceId, preconditions(current, trigger));
          removed.add(interfaceId);
        }
        for (const interfaceId of plan.missing) {
          current = await connections.applyTunnel(ref, initialEntry(interfaceId, now), preconditions(current, trigger));
          added.add(interfaceId);
        }
        break;
      } catch (err) {
        if (!(err instanceof StoreError) || err.code !== 'conflict' || conflicts === MAX_CONFLICTS) throw err;
        const fresh = await connections.get(ref, { signal: trigger.signal() });
        if (fresh?.metadata.uid !== uid)
          throw new StoreError('conflict', `${connectionKey(ref)} was recreated meanwhile`);
        counts = (await gateways.of(ref)) ?? counts; // its list of tunnels may be another one
        current = fresh;
      }
    }

    const { interfaces } = counts.announcement;
    for (const interfaceId of interfaces) {
      const [isLeaving, isKnown] = await Promise.all([
        unlisting.isBegun(ref, interfaceId),
        isListed(ref, interfaceId, uid, counts.epoch),
      ]);
      if (isLeaving) unlisted.add(interfaceId);
      if (isNew || !isKnown || added.has(interfaceId) || unlisted.has(interfaceId)) {
        await tell({ ...about(), kind: 'listed', interfaceId, connectionUid: uid }, uid, trigger);
        added.add(interfaceId);
      }
    }
    await unlisting.end(ref, unlisted, eventId);
    if (added.size > 0) {
      // Uids have no order: if it was made anew before this was told, that of the new one is to be the last word.
      const fresh = await connections.get(ref, { signal: trigger.signal() });
      if (fresh !== undefined && fresh.metadata.uid !== uid) {
        return reconcileTunnelsStatus(fresh, counts, trigger, true);
      }
    }
    return { added: [...added], removed: [...removed] };
  }
}

function preconditions({ metadata }: Connection, { signal }: Trigger) {
  return { resourceVersion: metadata.resourceVersion, signal: signal() };
}
