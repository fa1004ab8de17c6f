import { aggregate, sameAggregate } from '../../shared/domain/aggregate.ts';
import { AGGREGATE_DUE_TYPE, aggregateTimerMessage } from '../../shared/domain/aggregate-due.ts';
import type { Change } from '../../shared/domain/change.ts';
import { type Connection, type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { ConnectionDue } from '../../shared/domain/connection-due.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { dueTimer } from '../../shared/runtime/due-timer.ts';
import { failedBy } from '../../shared/runtime/failed-by.ts';
import { latestOnly } from '../../shared/runtime/latest-only.ts';
import { type NewestVersions, newestVersions } from '../../shared/runtime/newest-versions.ts';
import { manifest } from './manifest.ts';

/** The tunnels of a Connection are refreshed in the same round of PINGs, and often fail together: one write shows them all. */
const DEFAULT_DELAY_MS = 500;
/** A change that is refused this often gives its place in the consumer to others, and a timer brings the Connection back. */
const MAX_TRIES = 5;
/** After so many conflicts in a row the change comes again later. */
const MAX_CONFLICTS = 5;

const SUPERSEDED: Outcome = { outcome: 'throttled', reason: 'Superseded' };
const UNCHANGED: Outcome = { outcome: 'throttled', reason: 'Unchanged' };
const ALREADY_JUDGED: Outcome = { outcome: 'throttled', reason: 'AlreadyJudged' };

type ConnectionChange = Extract<Change, { readonly kind: 'connections' }>;

/**
 * Level-based: any change of the Connection, by anybody, is reason to judge it as it is. The change itself carries the
 * object and its resourceVersion, so it is the first read; only a conflict, or a wait, costs another.
 *
 * A change that a newer one has overtaken is acknowledged without a call: the newer one stays in the stream until it is
 * judged, here or, if this process dies, elsewhere. So a burst costs one write, not one a change, and a Connection whose
 * writes fail keeps one place in the consumer, however often it changes. Where `status.value` stays what it is, the change
 * waits a little for the next; it is not acknowledged until then.
 */
export const connectionAggregate = defineFunction<Change | ConnectionDue>({
  manifest,
  create(ports, { aggregateDelayMs = DEFAULT_DELAY_MS }) {
    const seen = newestVersions();
    const judged = newestVersions();
    const inTurn = latestOnly(ports.clock);
    const timer = dueTimer(ports, aggregateTimerMessage);
    const updateConnectionStatusAggregated = aggregateUpdater(ports, judged);

    async function judge(ref: ConnectionRef, { type, object }: ConnectionChange, context: EventContext) {
      if (type === 'DELETED') return { outcome: 'throttled', reason: 'Deleted' } as const;
      if (seen.supersede(object)) return SUPERSEDED;
      seen.note(object);
      if (judged.cover(object)) return ALREADY_JUDGED;
      const { status, metadata } = object;
      const after = aggregate(status?.tunnels ?? [], status, metadata);
      if (sameAggregate(status, after)) {
        judged.note(object);
        return UNCHANGED;
      }
      const canWait = status?.value === after.value;
      // What waited is read again: of the changes that came meanwhile, other replicas got some.
      const first = canWait ? undefined : object;
      const outcome = await inTurn(
        connectionKey(ref),
        async () => (judged.cover(object) ? ALREADY_JUDGED : updateConnectionStatusAggregated(ref, first, context)),
        canWait ? aggregateDelayMs : 0,
      );
      return outcome ?? SUPERSEDED;
    }

    /** As it is now, whatever it was when the timer was armed. */
    async function judgeAgain(ref: ConnectionRef, context: EventContext): Promise<Outcome> {
      const update = () => updateConnectionStatusAggregated(ref, undefined, context);
      return (await inTurn(connectionKey(ref), update, 0)) ?? SUPERSEDED;
    }

    /** What is refused by a timer, or often enough, comes back by the next timer. */
    async function settle(
      connection: ConnectionRef,
      outcome: Outcome,
      { deliveryCount, storedAtUnixMs }: EventContext,
      due?: ConnectionDue,
    ): Promise<Outcome> {
      const isToComeBack = outcome.outcome === 'failed' && (due !== undefined || deliveryCount >= MAX_TRIES);
      if (!isToComeBack) return { ...outcome, connection };
      await timer.later(connection, storedAtUnixMs, due);
      return { ...outcome, connection, comesBack: true };
    }

    return {
      async handle({ type, data }, context) {
        if (type === AGGREGATE_DUE_TYPE) {
          const due = data as ConnectionDue;
          const connection = { namespace: due.namespace, name: due.connection };
          return settle(connection, await judgeAgain(connection, context), context, due);
        }
        const change = data as Change;
        if (change.kind !== 'connections') return { outcome: 'orphan', reason: 'OtherKind' };
        const { namespace, name } = change.object.metadata;
        const connection = { namespace, name };
        return settle(connection, await judge(connection, change, context), context);
      },
    };
  },
});

/** Read (or `first`) → judge → apply with that resourceVersion; on a conflict read and judge again. Equal: no write. */
function aggregateUpdater({ connections, log }: FunctionPorts, judged: NewestVersions) {
  return async function updateConnectionStatusAggregated(
    ref: ConnectionRef,
    first: Connection | undefined,
    context: EventContext,
  ): Promise<Outcome> {
    let current = first;
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      try {
        current ??= await connections.get(ref, { signal: context.nextAttempt() });
        if (current === undefined) return { outcome: 'orphan', reason: 'NoConnection' };
        const before = current.status;
        const after = aggregate(before?.tunnels ?? [], before, current.metadata);
        if (sameAggregate(before, after)) {
          judged.note(current);
          return UNCHANGED;
        }
        const written = await connections.applyAggregate(ref, after, {
          signal: context.attemptSignal(),
          resourceVersion: current.metadata.resourceVersion,
        });
        judged.note(written);
        const transition = before?.value !== after.value;
        return { outcome: 'written', reason: transition ? 'Transition' : 'Refresh', before: summary(before), after };
      } catch (err) {
        if (!(err instanceof StoreError)) throw err;
        if (err.code === 'conflict') {
          current = undefined;
          continue;
        }
        if (err.code === 'not-found') return { outcome: 'orphan', reason: 'NoConnection' };
        log.warn({ err, connection: connectionKey(ref) }, 'aggregate not written');
        return failedBy(err);
      }
    }
    return { outcome: 'failed', reason: 'Conflict' };
  };
}

function summary(status: Connection['status']) {
  return { value: status?.value, latency: status?.latency, conditions: status?.conditions };
}
