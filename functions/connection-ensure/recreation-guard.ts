import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { observationsFilter } from '../../shared/domain/subjects.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { Outcome } from '../../shared/runtime/define-function.ts';

const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;

/**
 * A Connection that was deleted is created again only while its gateway speaks, and ever more slowly: a gateway that is
 * gone takes its Connection with it, and against the garbage collector nobody wins.
 */
export function recreationGuard({ bus, clock }: Pick<FunctionPorts, 'bus' | 'clock'>, settings: FunctionSettings) {
  const recent = new Map<string, { readonly atMs: number; readonly delayMs: number }>();

  /** `undefined`: go on. `deletedAtUnixMs` is the server's time of the deletion's event. */
  return async (connection: ConnectionRef, deletedAtUnixMs: number): Promise<Outcome | undefined> => {
    const key = connectionKey(connection);
    const observations = await bus.lastMessages('OBSERVATIONS', observationsFilter(connection));
    const lastHeardUnixMs = Math.max(0, ...observations.map((message) => message.storedAtUnixMs));
    if (deletedAtUnixMs - lastHeardUnixMs > settings.gatewaySilentAfterMs) {
      recent.delete(key);
      return { outcome: 'orphan', reason: 'GatewaySilent' };
    }
    const nowMs = clock.monotonicMs();
    const last = recent.get(key);
    const waitMs = last === undefined ? 0 : last.atMs + last.delayMs - nowMs;
    if (waitMs > 0) return { outcome: 'failed', reason: 'RecreatedJustNow', retryAfterMs: Math.ceil(waitMs) };
    const calm = last === undefined || nowMs - last.atMs > 2 * MAX_DELAY_MS;
    recent.set(key, { atMs: nowMs, delayMs: calm ? FIRST_DELAY_MS : Math.min(last.delayMs * 2, MAX_DELAY_MS) });
    return undefined;
  };
}
