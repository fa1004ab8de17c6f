import { type ConnectionRef, connectionKey, type TunnelEntry } from '../../shared/domain/connection.ts';
import type { Observation, Silent } from '../../shared/domain/observation.ts';
import { isLabelledBy, judgeWrite, type WriteCandidate } from '../../shared/domain/tunnel-status.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { EventContext, Outcome } from '../../shared/runtime/define-function.ts';
import { manifest } from './manifest.ts';
import type { TunnelCache } from './state-cache.ts';
import { writeGovernor } from './write-governor.ts';

type Place = {
  readonly cache: TunnelCache;
  readonly connection: ConnectionRef;
  readonly context: Pick<EventContext, 'consumer' | 'nextAttempt'>;
  /** Not the first attempt at the event: it was perhaps written, and could not say so. */
  readonly isRepeat: boolean;
};

/** An attempt is over before: one that lasted as long was this process's own sleep. */
const SLEPT_MS = manifest.attemptTimeoutMs + 250;

/**
 * One read → judge → apply with that resourceVersion, while the state is the one that the event was judged by. The entry is written before its state is kept: after a crash
 * between the two the repeated event finds the entry equal, so nothing is lost and nothing is written twice.
 */
export function tunnelStatusUpdater({ connections, clock, log }: FunctionPorts) {
  const governor = writeGovernor(clock);

  return async function updateTunnelStatus(
    candidate: WriteCandidate,
    { cache, connection, context, isRepeat }: Place,
  ): Promise<Outcome | 'conflict'> {
    const name = connectionKey(connection);
    const { shown, pending } = candidate.state;
    const isTransition = shown === undefined || pending !== undefined;
    const shownAge = shownAgeOf(candidate);
    const hold = governor.hold(name, context.consumer, isTransition || isRepeat);
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
        const { kind, reason, entry } = judgement;
        const isWritten = isRepeat && entry !== undefined && isLabelledBy(entry, candidate.event);
        return { ...(isWritten ? writtenBefore(entry, candidate.event) : { outcome: kind, reason }), superseded };
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
      const hasSlept = !isRepeat && clock.monotonicMs() - startedMs > SLEPT_MS;
      // Neither says anything against the API: it is asked anew, and what is there may be another thing by now.
      if (err.code === 'conflict' || hasSlept) return 'conflict';
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

/**
 * Tells of an event that an earlier delivery wrote it: that one perhaps died before it could say so; said twice it is
 * told once.
 */
export function writtenEventTeller({ connections }: FunctionPorts) {
  return async function tellWritten(
    event: Observation,
    { connection, context }: Pick<Place, 'connection' | 'context'>,
  ) {
    try {
      const current = await connections.get(connection, { signal: context.nextAttempt() });
      const entry = current?.status?.tunnels?.find(({ interfaceID }) => interfaceID === event.interfaceId);
      return entry !== undefined && isLabelledBy(entry, event) ? writtenBefore(entry, event) : GONE_SINCE;
    } catch (err) {
      if (!(err instanceof StoreError)) throw err;
      return { outcome: 'failed', reason: err.code } as const;
    }
  };
}

const GONE_SINCE: Outcome = { outcome: 'stale', reason: 'OlderSequence' };

function writtenBefore(after: TunnelEntry, { observedAt }: Observation | Silent): Outcome {
  return { outcome: 'written', reason: after.lastTransitionTime === observedAt ? 'Transition' : 'Refresh', after };
}

/** By the gateway's clock, hence only within one run of it. */
function shownAgeOf({ event, state: { shown } }: WriteCandidate): { readonly shownAgeMs?: number } {
  if (shown === undefined || !('monotonicMs' in event) || shown.gatewayEpoch !== event.gatewayEpoch) return {};
  return { shownAgeMs: event.monotonicMs - shown.monotonicMs };
}
