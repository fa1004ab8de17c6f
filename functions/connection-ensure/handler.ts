import type { Change } from '../../shared/domain/change.ts';
import {
  type Connection,
  type ConnectionRef,
  connectionKey,
  type PublicKey,
  REMOTE_CLUSTER_ID_LABEL,
} from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import type { GatewayState } from '../../shared/domain/gateway-state.ts';
import { encodeToken } from '../../shared/domain/subject-token.ts';
import { desiredConnection, planListing } from '../../shared/domain/tunnel-listing.ts';
import { StoreError, type StoreErrorCode } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { newestVersions } from '../../shared/runtime/newest-versions.ts';
import { oneAtATime } from '../../shared/runtime/one-at-a-time.ts';
import { type Announced, acceptedGateways } from './accepted-gateways.ts';
import { manifest } from './manifest.ts';
import { type Trigger, tunnelsReconciler } from './reconcile-tunnels.ts';
import { recreationGuard } from './recreation-guard.ts';
import { silenceTimer } from './silence-timer.ts';

/** Connections whose listing is remembered as right; one that is forgotten is compared again. */
const MAX_VERIFIED = 10_000;

/** There is no such namespace any more, or it is no Connection: only another announcement helps. */
const HOPELESS: readonly string[] = ['not-found', 'invalid'] satisfies StoreErrorCode[];
/** Somebody must grant rights, run setup, or wait for a namespace to end. */
const REFUSALS: readonly string[] = ['forbidden', 'schema'] satisfies StoreErrorCode[];
const INSIST_EVERY_MS = 30_000;

export const connectionEnsure = defineFunction<GatewayAnnouncement | Change>({
  manifest,
  create(ports, settings) {
    const gateways = acceptedGateways(ports);
    const ensureConnection = connectionEnsurer(ports);
    const armSilence = silenceTimer(ports, settings);
    const guard = recreationGuard(ports, settings);
    /** Connections whose listing this process has compared with what tunnel-status knows, by uid and announcement. */
    const verified = new BoundedMap<string, string>(MAX_VERIFIED);
    const seen = newestVersions();
    const inTurn = oneAtATime();

    function ensure(gateway: GatewayState, trigger: Trigger, storedAtUnixMs: number): Promise<Outcome> {
      const ref = refOf(gateway.announcement);
      return inTurn(connectionKey(ref), async () => {
        const { outcome, uid } = await ensureConnection(gateway, trigger);
        if (uid !== undefined) {
          verified.set(connectionKey(ref), listingOf(uid, gateway));
          await armSilence(ref, storedAtUnixMs);
        }
        return outcome;
      });
    }

    async function onAnnouncement(announced: Announced, trigger: Trigger): Promise<Outcome> {
      const { namespaces } = settings;
      if (namespaces?.includes(announced.announcement.namespace) === false) {
        return { outcome: 'orphan', reason: 'NotWatched', connection: refOf(announced.announcement) };
      }
      const judgement = await gateways.accept(announced);
      const outcome: Outcome =
        judgement.kind === 'stale'
          ? { outcome: 'stale', reason: 'OlderEpoch' }
          : await ensure(judgement.state, trigger, announced.storedAtUnixMs);
      return { ...outcome, connection: refOf(announced.announcement) };
    }

    async function onPublicKey(key: PublicKey, type: Change['type'], trigger: Trigger): Promise<Outcome> {
      const remoteClusterId = key.metadata.labels?.[REMOTE_CLUSTER_ID_LABEL];
      if (type === 'DELETED') return { outcome: 'throttled', reason: 'Deleted' };
      if (remoteClusterId === undefined) return { outcome: 'orphan', reason: 'NoRemoteClusterLabel' };
      const announced = await gateways.announced(`gateways.${encodeToken(key.metadata.namespace)}.*`);
      const ours = announced.filter(({ announcement }) => announcement.remoteClusterId === remoteClusterId);
      let worst: Outcome = { outcome: 'orphan', reason: 'NoGateway' };
      for (const gateway of ours) {
        const outcome = await onAnnouncement(gateway, trigger);
        if (worst.outcome !== 'failed') worst = outcome;
      }
      return worst;
    }

    async function onConnection(object: Connection, type: Change['type'], trigger: Trigger, context: EventContext) {
      const connection = { namespace: object.metadata.namespace, name: object.metadata.name };
      // The newer change stays in the stream until it is handled: with it comes all that this one could say.
      if (type !== 'DELETED' && seen.supersede(object)) {
        return { outcome: 'throttled', reason: 'Superseded', connection } as const;
      }
      seen.note(object);
      const gateway = await gateways.of(connection);
      if (gateway === undefined) return { outcome: 'orphan', reason: 'NoGateway', connection } as const;
      if (type === 'DELETED') {
        const refusal = await guard(connection, context);
        return { ...(refusal ?? (await ensure(gateway, trigger, context.storedAtUnixMs))), connection };
      }
      const { missing, stale } = planListing(object, gateway.announcement.interfaces);
      const known = verified.get(connectionKey(connection)) === listingOf(object.metadata.uid, gateway);
      if (known && missing.length === 0 && stale.length === 0 && isAsDesired(object, gateway)) {
        return { outcome: 'throttled', reason: 'Unchanged', connection } as const;
      }
      return { ...(await ensure(gateway, trigger, context.storedAtUnixMs)), connection };
    }

    /**
     * @returns those that were refused, and may not be another time
     * @throws Error where the API server cannot be asked
     */
    async function ensureAll(announced: readonly Announced[], signal: AbortSignal): Promise<readonly Announced[]> {
      const refused: Announced[] = [];
      for (const one of announced) {
        const eventId = `start-${ports.clock.unixMs()}`;
        const { outcome, reason } = await onAnnouncement(one, { eventId, signal: () => signal });
        if (outcome !== 'failed' || HOPELESS.includes(reason)) continue;
        if (!REFUSALS.includes(reason)) {
          throw new Error(`${connectionKey(refOf(one.announcement))} could not be ensured: ${reason}`);
        }
        refused.push(one);
      }
      return refused;
    }

    /** In the background: one whose namespace ends, say, must not keep the others from being looked after. */
    async function insist(refused: readonly Announced[], signal: AbortSignal): Promise<void> {
      let left = refused;
      while (left.length > 0 && !signal.aborted) {
        await ports.clock.sleep(INSIST_EVERY_MS, signal).catch(() => {});
        if (!signal.aborted) left = await ensureAll(left, signal).catch(() => left);
      }
    }

    return {
      /** Whatever was announced is looked at once: a lost bucket or a missed change repairs itself here. */
      async start(signal) {
        void insist(await ensureAll(await gateways.announced('gateways.*.*'), signal), signal);
      },

      async handle({ id, type, data }, context) {
        const trigger: Trigger = { eventId: id, signal: context.nextAttempt };
        if (type === GATEWAY_TYPE) {
          const { streamSequence: sequence, storedAtUnixMs } = context;
          return onAnnouncement({ announcement: data as GatewayAnnouncement, sequence, storedAtUnixMs }, trigger);
        }
        const change = data as Change;
        return change.kind === 'publickeies'
          ? onPublicKey(change.object, change.type, trigger)
          : onConnection(change.object, change.type, trigger, context);
      },
    };
  },
});

function connectionEnsurer(ports: FunctionPorts) {
  const { connections, log } = ports;
  const reconcileTunnelsStatus = tunnelsReconciler(ports);

  /** Creates or updates the Connection, then its list of tunnels. Idempotent. */
  return async function ensureConnection(
    gateway: GatewayState,
    trigger: Trigger,
  ): Promise<{ readonly outcome: Outcome; readonly uid?: string }> {
    try {
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
      log.warn({ err, connection: connectionKey(refOf(gateway.announcement)) }, 'Connection not ensured');
      const retryAfter = err.retryAfterMs === undefined ? {} : { retryAfterMs: err.retryAfterMs };
      return { outcome: { outcome: 'failed', reason: err.code, ...retryAfter } };
    }
  };
}

function refOf({ namespace, connection }: GatewayAnnouncement): ConnectionRef {
  return { namespace, name: connection };
}

function listingOf(uid: string, { epoch, sequence }: GatewayState): string {
  return `${uid}/${epoch}/${sequence}`;
}

/** Cheap look at what somebody may have edited; `connections.ensure` compares in full. */
function isAsDesired(object: Connection, { announcement }: GatewayState): boolean {
  const desired = desiredConnection(announcement);
  return (
    object.spec.type === desired.spec.type &&
    object.spec.gatewayRef.name === desired.spec.gatewayRef.name &&
    object.spec.gatewayRef.uid === desired.spec.gatewayRef.uid &&
    object.metadata.labels?.[REMOTE_CLUSTER_ID_LABEL] === announcement.remoteClusterId &&
    desired.metadata.ownerReferences.every(({ uid }) =>
      object.metadata.ownerReferences?.some((owner) => owner.uid === uid),
    )
  );
}
