import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import { connectionOf, type TunnelEvent } from '../../shared/domain/observation.ts';
import { tunnelStateKey } from '../../shared/domain/subjects.ts';
import {
  isOvertaken,
  judgeEvent,
  judgeWrite,
  type TunnelState,
  type WriteCandidate,
} from '../../shared/domain/tunnel-status.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { manifest } from './manifest.ts';
import { PartitionCache, type TunnelCache } from './state-cache.ts';
import { writeGovernor } from './write-governor.ts';

/** After so many conflicts in a row the next observation tries again. */
const MAX_CONFLICTS = 5;

export const tunnelStatus = defineFunction<TunnelEvent>({
  manifest,
  create(ports, settings) {
    const partitions = new Map<string, PartitionCache>();
    const updateTunnelStatus = tunnelStatusUpdater(ports);
    const judgedBy = { updateStatusIntervalMs: settings.updateStatusIntervalMs };

    return {
      async handle({ data }, context) {
        const connection = connectionOf(data);
        const { streamSequence: sequence, storedAtUnixMs, previous } = context;
        const place = { sequence, storedAtUnixMs };
        const cache = cacheOf(partitions, context, ports).of(tunnelStateKey(connection, data.interfaceId), {
          data,
          place,
          previous,
        });
        const outcome = await judgeAndSettle();
        return { ...outcome, connection, interfaceId: data.interfaceId, judgedBy };

        async function judgeAndSettle(): Promise<Outcome> {
          let unwritten: TunnelState | undefined;
          for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
            const state = conflicts === 0 ? await cache.load() : await cache.reload();
            if (isOvertaken(state, data, place)) return { outcome: 'stale', reason: 'Overtaken' };
            const judgement = judgeEvent(state, data, settings);
            if (judgement.kind === 'listing') {
              if (!(await cache.save(judgement.state))) continue;
              return { outcome: 'throttled', reason: judgement.reason, notable: true, after: judgement.state };
            }
            if (judgement.kind !== 'candidate') {
              if (!(await cache.note(judgement.state))) continue;
              return { outcome: judgement.kind, reason: judgement.reason };
            }
            const outcome = await updateTunnelStatus(judgement, { cache, connection, context });
            if (outcome !== 'conflict') return outcome;
            unwritten = judgement.state;
          }
          // As after a write that the API refused: the order and the change of value were perhaps in this copy only.
          if (unwritten !== undefined) await cache.save(unwritten);
          return { outcome: 'failed', reason: 'Conflict' };
        }
      },
    };
  },
});

/** What a replica remembers of a partition counts only while nobody else handled one of its events. */
function cacheOf(
  partitions: Map<string, PartitionCache>,
  { consumer, uninterrupted }: Pick<EventContext, 'consumer' | 'uninterrupted'>,
  { state }: FunctionPorts,
): PartitionCache {
  let cache = partitions.get(consumer);
  if (cache === undefined) {
    cache = new PartitionCache(state);
    partitions.set(consumer, cache);
  }
  if (!uninterrupted) cache.clear();
  return cache;
}

type Place = {
  readonly cache: TunnelCache;
  readonly connection: ConnectionRef;
  readonly context: Pick<EventContext, 'consumer' | 'nextAttempt'>;
};

/**
 * One read → judge → apply with that resourceVersion, while the state is the one that the event was judged by. The entry is written before its state is kept: after a crash
 * between the two the repeated event finds the entry equal, so nothing is lost and nothing is written twice.
 */
function tunnelStatusUpdater({ connections, clock, log }: FunctionPorts) {
  const governor = writeGovernor(clock);

  return async function updateTunnelStatus(
    candidate: WriteCandidate,
    { cache, connection, context }: Place,
  ): Promise<Outcome | 'conflict'> {
    const name = connectionKey(connection);
    const { shown, pending } = candidate.state;
    const isTransition = shown === undefined || pending !== undefined;
    const shownAge = shownAgeOf(candidate);
    const hold = governor.hold(name, context.consumer, isTransition);
    if (hold !== undefined) {
      if (!(await cache.note(candidate.state))) return 'conflict';
      return { outcome: hold === 'Shed' ? 'throttled' : 'failed', reason: hold, ...shownAge };
    }

    const startedMs = clock.monotonicMs();
    const signal = context.nextAttempt();
    try {
      const current = await connections.get(connection, { signal });
      // After the Connection: a later event was kept before what follows on it could be written.
      if (!(await cache.confirm())) return 'conflict';
      const judgement = judgeWrite(candidate, current);
      const { superseded } = judgement;
      if (judgement.kind !== 'write' || current === undefined) {
        governor.succeeded(name);
        if (judgement.kind === 'write' || !(await cache.save(judgement.state))) return 'conflict';
        return { outcome: judgement.kind, reason: judgement.reason, superseded };
      }
      const { resourceVersion } = current.metadata;
      await connections.applyTunnel(connection, judgement.entry, { signal, resourceVersion });
      governor.succeeded(name);
      await cache.save(judgement.state);
      const { before, entry: after } = judgement;
      const reason = before.value === after.value ? 'Refresh' : 'Transition';
      return { outcome: 'written', reason, before, after, superseded, ...shownAge };
    } catch (err) {
      if (!(err instanceof StoreError)) throw err;
      if (err.code === 'conflict') return 'conflict';
      // The write may have happened all the same, so that this event was seen must be known to every replica;
      // what is shown is not known, so the next one tries again.
      await cache.save(candidate.state);
      if (err.code === 'not-found') return { outcome: 'orphan', reason: 'NoConnection' };
      governor.failed(name, err.retryAfterMs);
      log.warn({ err, connection: name, interfaceId: candidate.event.interfaceId }, 'tunnel status not written');
      return { outcome: 'failed', reason: err.code, ...shownAge };
    } finally {
      governor.took(context.consumer, isTransition, clock.monotonicMs() - startedMs);
    }
  };
}

/** By the gateway's clock, hence only within one run of it. */
function shownAgeOf({ event, state: { shown } }: WriteCandidate): { readonly shownAgeMs?: number } {
  if (shown === undefined || !('monotonicMs' in event) || shown.gatewayEpoch !== event.gatewayEpoch) return {};
  return { shownAgeMs: event.monotonicMs - shown.monotonicMs };
}
