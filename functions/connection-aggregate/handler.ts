import { aggregate, sameAggregate } from '../../shared/domain/aggregate.ts';
import type { Change } from '../../shared/domain/change.ts';
import {
  type Connection,
  type ConnectionRef,
  connectionKey,
  isNewerResourceVersion,
} from '../../shared/domain/connection.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { manifest } from './manifest.ts';

/** After so many conflicts in a row the change comes again later. */
const MAX_CONFLICTS = 5;
/** Connections whose last read is remembered; forgetting one costs at most one needless judgement. */
const MAX_REMEMBERED = 10_000;

/**
 * Level-based: any change of the Connection, by anybody, is reason to judge it as it is. The change itself carries the
 * object and its resourceVersion, so it is the first read; only a conflict costs another.
 */
export const connectionAggregate = defineFunction<Change>({
  manifest,
  create(ports) {
    const lastJudged = lastJudgedVersions();
    const updateConnectionStatusAggregated = aggregateUpdater(ports, lastJudged);

    return {
      async handle({ data }, context) {
        if (data.kind !== 'connections') return { outcome: 'orphan', reason: 'OtherKind' };
        const { metadata } = data.object;
        const connection = { namespace: metadata.namespace, name: metadata.name };
        const outcome = await judge();
        return { ...outcome, connection };

        async function judge(): Promise<Outcome> {
          if (data.type === 'DELETED') return { outcome: 'throttled', reason: 'Deleted' };
          if (lastJudged.covers(data.object as Connection)) return { outcome: 'throttled', reason: 'AlreadyJudged' };
          return updateConnectionStatusAggregated(connection, data.object as Connection, context);
        }
      },
    };
  },
});

/** Read → judge → apply with that resourceVersion; on a conflict read and judge again. Equal: no write. */
function aggregateUpdater({ connections, log }: FunctionPorts, lastJudged: LastJudged) {
  return async function updateConnectionStatusAggregated(
    ref: ConnectionRef,
    changed: Connection,
    context: EventContext,
  ): Promise<Outcome> {
    let current: Connection | undefined = changed;
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      try {
        if (conflicts > 0) current = await connections.get(ref, { signal: context.attemptSignal() });
        if (current === undefined) return { outcome: 'orphan', reason: 'NoConnection' };
        const before = current.status;
        const after = aggregate(before?.tunnels ?? [], before, current.metadata);
        if (sameAggregate(before, after)) {
          lastJudged.note(current);
          return { outcome: 'throttled', reason: 'Unchanged' };
        }
        const written = await connections.applyAggregate(ref, after, {
          signal: context.attemptSignal(),
          resourceVersion: current.metadata.resourceVersion,
        });
        lastJudged.note(written);
        const transition = before?.value !== after.value;
        return { outcome: 'written', reason: transition ? 'Transition' : 'Refresh', before: summary(before), after };
      } catch (err) {
        if (!(err instanceof StoreError)) throw err;
        if (err.code === 'conflict') continue;
        if (err.code === 'not-found') return { outcome: 'orphan', reason: 'NoConnection' };
        log.warn({ err, connection: connectionKey(ref) }, 'aggregate not written');
        return { outcome: 'failed', reason: err.code, ...retryAfter(err) };
      }
    }
    return { outcome: 'failed', reason: 'Conflict' };
  };
}

function retryAfter({ retryAfterMs }: StoreError): { readonly retryAfterMs?: number } {
  return retryAfterMs === undefined ? {} : { retryAfterMs };
}

function summary(status: Connection['status']) {
  return { value: status?.value, latency: status?.latency, conditions: status?.conditions };
}

type LastJudged = ReturnType<typeof lastJudgedVersions>;

/** The newest resourceVersion judged, by uid: a change at or below it tells nothing new. */
function lastJudgedVersions() {
  const versions = new Map<string, string>();
  return {
    covers({ metadata }: Connection): boolean {
      const judged = versions.get(metadata.uid);
      return judged !== undefined && !isNewerResourceVersion(metadata.resourceVersion, judged);
    },
    note({ metadata }: Connection): void {
      const judged = versions.get(metadata.uid);
      if (judged !== undefined && !isNewerResourceVersion(metadata.resourceVersion, judged)) return;
      versions.delete(metadata.uid);
      versions.set(metadata.uid, metadata.resourceVersion);
      if (versions.size > MAX_REMEMBERED) {
        const [oldest] = versions.keys();
        if (oldest !== undefined) versions.delete(oldest);
      }
    },
  };
}
