import { connectionOf, type TunnelEvent } from '../../shared/domain/observation.ts';
import { tunnelStateKey } from '../../shared/domain/subjects.ts';
import { isNewestSeen, isOvertaken, judgeEvent, type TunnelState } from '../../shared/domain/tunnel-status.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { manifest } from './manifest.ts';
import { PartitionCache } from './state-cache.ts';
import { tunnelStatusUpdater, writtenEventTeller } from './update-tunnel-status.ts';

/** After so many conflicts in a row the next observation tries again. */
const MAX_CONFLICTS = 5;

export const tunnelStatus = defineFunction<TunnelEvent>({
  manifest,
  create(ports, settings) {
    const partitions = new Map<string, PartitionCache>();
    const updateTunnelStatus = tunnelStatusUpdater(ports);
    const tellWritten = writtenEventTeller(ports);
    const judgedBy = { updateStatusIntervalMs: settings.updateStatusIntervalMs };

    return {
      async handle({ data }, context) {
        const connection = connectionOf(data);
        const { streamSequence: sequence, storedAtUnixMs, previous, deliveryCount } = context;
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
            if (deliveryCount > 1 && isNewestSeen(state, data)) return tellWritten(data, { connection, context });
            const judgement = judgeEvent(state, data, settings);
            if (judgement.kind === 'listing') {
              if (!(await cache.save(judgement.state))) continue;
              return { outcome: 'throttled', reason: judgement.reason, notable: true, after: judgement.state };
            }
            if (judgement.kind !== 'candidate') {
              if (!(await cache.note(judgement.state))) continue;
              return { outcome: judgement.kind, reason: judgement.reason };
            }
            const isRepeat = deliveryCount > 1 || conflicts > 0;
            const outcome = await updateTunnelStatus(judgement, { cache, connection, context, isRepeat });
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
