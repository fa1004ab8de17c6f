import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { GatewayState } from '../../shared/domain/gateway-state.ts';
import { desiredConnection } from '../../shared/domain/tunnel-listing.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { Outcome } from '../../shared/runtime/define-function.ts';
import { failedBy } from '../../shared/runtime/failed-by.ts';
import type { AcceptedGateways } from './accepted-gateways.ts';
import { type Trigger, tunnelsReconciler } from './reconcile-tunnels.ts';

/** Asked where the Connection is missing: `undefined` lets it be made, an outcome says why not. */
export type WhenMissing = () => Promise<Outcome | undefined>;

export function connectionEnsurer(ports: FunctionPorts, gateways: Pick<AcceptedGateways, 'of'>) {
  const { connections, log } = ports;
  const reconcileTunnelsStatus = tunnelsReconciler(ports, gateways);

  /** Creates or updates the Connection, then its list of tunnels. Idempotent. */
  return async function ensureConnection(
    gateway: GatewayState,
    trigger: Trigger,
    whenMissing?: WhenMissing,
  ): Promise<{ readonly outcome: Outcome; readonly uid?: string }> {
    const ref = announcedConnection(gateway);
    try {
      if (whenMissing !== undefined && (await connections.get(ref, { signal: trigger.signal() })) === undefined) {
        const refusal = await whenMissing();
        if (refusal !== undefined) return { outcome: refusal };
      }
      const desired = desiredConnection(gateway.announcement);
      const { connection, change } = await connections.ensure(desired, { signal: trigger.signal() });
      if (connection.metadata.deletionTimestamp !== undefined) {
        return { outcome: { outcome: 'throttled', reason: 'BeingDeleted' } };
      }
      const { added, removed } = await reconcileTunnelsStatus(connection, gateway, trigger);
      const { uid } = connection.metadata;
      if (change === 'none' && added.length === 0 && removed.length === 0) {
        return { outcome: { outcome: 'throttled', reason: 'Unchanged' }, uid };
      }
      const after = { uid, epoch: gateway.epoch, change, added, removed };
      return { outcome: { outcome: 'written', reason: change === 'created' ? 'Created' : 'Reconciled', after }, uid };
    } catch (err) {
      if (!(err instanceof StoreError)) throw err;
      log.warn({ err, connection: connectionKey(ref) }, 'Connection not ensured');
      return { outcome: failedBy(err) };
    }
  };
}

export function announcedConnection({ announcement }: Pick<GatewayState, 'announcement'>): ConnectionRef {
  return { namespace: announcement.namespace, name: announcement.connection };
}
