import type { Change } from '../../shared/domain/change.ts';
import {
  type Connection,
  type ConnectionRef,
  connectionKey,
  type PublicKey,
  REMOTE_CLUSTER_ID_LABEL,
} from '../../shared/domain/connection.ts';
import type { ConnectionDue } from '../../shared/domain/connection-due.ts';
import { ENSURE_DUE_TYPE, ensureTimerMessage } from '../../shared/domain/ensure-due.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import type { AnnouncementJudgement, GatewayState } from '../../shared/domain/gateway-state.ts';
import { encodeToken } from '../../shared/domain/subject-token.ts';
import { gatewaySubject } from '../../shared/domain/subjects.ts';
import { desiredConnection, planListing } from '../../shared/domain/tunnel-listing.ts';
import type { StoreErrorCode } from '../../shared/ports/connection-store.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { dueTimer } from '../../shared/runtime/due-timer.ts';
import { newestVersions } from '../../shared/runtime/newest-versions.ts';
import { oneAtATime } from '../../shared/runtime/one-at-a-time.ts';
import { type Announced, acceptedGateways } from './accepted-gateways.ts';
import { announcedConnection, connectionEnsurer, type WhenMissing } from './ensure-connection.ts';
import { manifest } from './manifest.ts';
import type { Trigger } from './reconcile-tunnels.ts';
import { recreationGuard } from './recreation-guard.ts';
import { silenceTimer } from './silence-timer.ts';

/** Connections whose listing is remembered as right; one that is forgotten is compared again. */
const MAX_VERIFIED = 10_000;

/** Refusals of one gateway: its namespace does not exist, ends, or may not be entered. A timer brings it back. */
const REFUSALS: readonly string[] = ['not-found', 'forbidden'] satisfies StoreErrorCode[];
/** The API takes no Connection of this name, label or owner: only another announcement helps. */
const UNACCEPTABLE: StoreErrorCode = 'invalid';

/** What made connection-ensure look at a gateway. */
type Occasion = {
  readonly trigger: Trigger;
  /** The bus server's time of it. */
  readonly atUnixMs: number;
  /** The timer, if it was one. */
  readonly due?: ConnectionDue;
};

export const connectionEnsure = defineFunction<GatewayAnnouncement | Change | ConnectionDue>({
  manifest,
  create(ports, settings) {
    const gateways = acceptedGateways(ports);
    const ensureConnection = connectionEnsurer(ports, gateways);
    const silence = silenceTimer(ports, settings);
    const timer = dueTimer(ports, ensureTimerMessage);
    const guard = recreationGuard(ports, settings);
    /** Connections whose listing this process has compared with what tunnel-status knows, by uid and announcement. */
    const verified = new BoundedMap<string, string>(MAX_VERIFIED);
    const seen = newestVersions();
    const inTurn = oneAtATime();

    function ensure(gateway: GatewayState, occasion: Occasion, whenMissing?: WhenMissing): Promise<Outcome> {
      const { trigger, atUnixMs, due } = occasion;
      const ref = announcedConnection(gateway);
      return inTurn(connectionKey(ref), async () => {
        const { outcome, uid } = await ensureConnection(gateway, trigger, whenMissing);
        if (uid !== undefined) {
          verified.set(connectionKey(ref), listingOf(uid, gateway));
          if (outcome.reason === 'Created' && due !== undefined) guard.note(ref);
          await silence.arm(ref, atUnixMs);
        }
        if (outcome.outcome !== 'failed') return outcome;
        if (outcome.reason === UNACCEPTABLE) return { outcome: 'invalid', reason: 'RefusedByApi' };
        if (!REFUSALS.includes(outcome.reason)) return outcome;
        await timer.later(ref, atUnixMs, due);
        return { ...outcome, comesBack: true };
      });
    }

    /**
     * One that does not count is an occasion, too, to make all as the one that counts says: an older run may have the last word
     * in GATEWAYS, and whoever had this one in hand before may have died half-way.
     */
    async function onAnnouncement(
      announced: Announced,
      occasion: Occasion,
      whenMissing?: (judgement: AnnouncementJudgement) => Promise<Outcome | undefined>,
    ): Promise<Outcome> {
      const connection = announcedConnection(announced);
      if (settings.namespaces?.includes(connection.namespace) === false) {
        return { outcome: 'orphan', reason: 'NotWatched', connection };
      }
      const judgement = await gateways.accept(announced);
      const outcome = await ensure(judgement.state, occasion, whenMissing && (() => whenMissing(judgement)));
      if (judgement.kind !== 'stale' || outcome.outcome !== 'throttled') return { ...outcome, connection };
      return { outcome: 'stale', reason: 'OlderEpoch', connection };
    }

    /** Its gateway may be gone, and the Connection with it: whether it lives is asked when the server says what time it is. */
    async function askFirst(connection: ConnectionRef, pastUnixMs: number): Promise<Outcome> {
      await timer.now(connection, pastUnixMs);
      return { outcome: 'orphan', reason: 'Missing' };
    }

    async function onDue(due: ConnectionDue, occasion: Occasion): Promise<Outcome> {
      const connection = { namespace: due.namespace, name: due.connection };
      const [announced] = await gateways.announced(gatewaySubject(connection));
      if (announced === undefined) return { outcome: 'orphan', reason: 'NoGateway', connection };
      return onAnnouncement(announced, { ...occasion, due }, async ({ kind, state: { epoch } }) => {
        const run = { epoch, atUnixMs: kind === 'stale' ? 0 : announced.storedAtUnixMs };
        const refusal = await guard.refusal(connection, occasion.atUnixMs, run);
        if (refusal === undefined) return undefined;
        const isOver = refusal === 'GatewayNotHeardYet' && due.delayMs >= settings.gatewaySilentAfterMs;
        if (isOver || refusal === 'GatewaySilent') return { outcome: 'orphan', reason: 'GatewaySilent' };
        await timer.later(connection, occasion.atUnixMs, due);
        return { outcome: 'orphan', reason: refusal };
      });
    }

    async function onPublicKey(key: PublicKey, type: Change['type'], trigger: Trigger): Promise<Outcome> {
      const remoteClusterId = key.metadata.labels?.[REMOTE_CLUSTER_ID_LABEL];
      if (type === 'DELETED') return { outcome: 'throttled', reason: 'Deleted' };
      if (remoteClusterId === undefined) return { outcome: 'orphan', reason: 'NoRemoteClusterLabel' };
      const announced = await gateways.announced(`gateways.${encodeToken(key.metadata.namespace)}.*`);
      const ours = announced.filter(({ announcement }) => announcement.remoteClusterId === remoteClusterId);
      let worst: Outcome = { outcome: 'orphan', reason: 'NoGateway' };
      for (const gateway of ours) {
        const outcome = await onAnnouncement(gateway, { trigger, atUnixMs: gateway.storedAtUnixMs });
        if (gravityOf(outcome) >= gravityOf(worst)) worst = outcome;
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
      const occasion = { trigger, atUnixMs: context.storedAtUnixMs };
      if (type === 'DELETED') {
        const outcome = await ensure(gateway, occasion, () => askFirst(connection, occasion.atUnixMs));
        return { ...outcome, connection };
      }
      const { missing, stale } = planListing(object, gateway.announcement.interfaces);
      const known = verified.get(connectionKey(connection)) === listingOf(object.metadata.uid, gateway);
      if (known && missing.length === 0 && stale.length === 0 && isAsDesired(object, gateway)) {
        await silence.watchOver(connection, occasion.atUnixMs);
        return { outcome: 'throttled', reason: 'Unchanged', connection } as const;
      }
      return { ...(await ensure(gateway, occasion)), connection };
    }

    return {
      /**
       * Whatever was announced is looked at once: a lost bucket or a missed change repairs itself here.
       *
       * @throws Error where the API server cannot be asked
       */
      async start(signal) {
        for (const announced of await gateways.announced('gateways.*.*')) {
          const trigger = { eventId: `start-${ports.clock.unixMs()}`, signal: () => signal };
          const occasion = { trigger, atUnixMs: announced.storedAtUnixMs };
          const { outcome, reason, comesBack } = await onAnnouncement(announced, occasion, () =>
            askFirst(announcedConnection(announced), announced.storedAtUnixMs),
          );
          if (outcome !== 'failed' || comesBack) continue;
          throw new Error(`${connectionKey(announcedConnection(announced))} could not be ensured: ${reason}`);
        }
      },

      async handle({ id, type, data }, context) {
        const trigger: Trigger = { eventId: id, signal: context.nextAttempt };
        const { streamSequence: sequence, storedAtUnixMs } = context;
        const occasion = { trigger, atUnixMs: storedAtUnixMs };
        if (type === GATEWAY_TYPE) {
          const announced = { announcement: data as GatewayAnnouncement, sequence, storedAtUnixMs };
          return onAnnouncement(announced, occasion, async ({ kind }) =>
            kind === 'accepted' ? undefined : askFirst(announcedConnection(announced), storedAtUnixMs),
          );
        }
        if (type === ENSURE_DUE_TYPE) return onDue(data as ConnectionDue, occasion);
        const change = data as Change;
        return change.kind === 'publickeies'
          ? onPublicKey(change.object, change.type, trigger)
          : onConnection(change.object, change.type, trigger, context);
      },
    };
  },
});

/** Of an event about several gateways one outcome is told: what only this event can bring back, before all else. */
function gravityOf({ outcome, comesBack }: Outcome): number {
  if (outcome === 'failed') return comesBack ? 1 : 3;
  return outcome === 'invalid' ? 2 : 0;
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
