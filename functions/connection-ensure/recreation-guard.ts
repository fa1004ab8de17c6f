import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { isSpokenByGateway } from '../../shared/domain/silence.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import type { EventContext, Outcome } from '../../shared/runtime/define-function.ts';
import { lastWordsReader } from '../../shared/runtime/last-words.ts';

const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
const LOOK_AGAIN_MS = 2_000;
/** Deletions that are remembered. */
const MAX_REMEMBERED = 10_000;

/**
 * A Connection that was deleted is created again only while its gateway speaks, and ever more slowly: a gateway that is
 * gone takes its Connection with it, and against the garbage collector nobody wins.
 */
export function recreationGuard(
  { bus, clock }: Pick<FunctionPorts, 'bus' | 'clock'>,
  { gatewaySilentAfterMs }: FunctionSettings,
) {
  const recent = new BoundedMap<string, { readonly atMs: number; readonly delayMs: number }>(MAX_REMEMBERED);
  const lastWords = lastWordsReader(bus);

  /** `undefined`: go on. Times are the server's; that of `context` is when the deletion was told. */
  return async (connection: ConnectionRef, context: EventContext): Promise<Outcome | undefined> => {
    const words = await lastWords(connection);
    const heard = words.filter(isSpokenByGateway).map(({ storedAtUnixMs }) => storedAtUnixMs);
    if (context.storedAtUnixMs - Math.max(0, ...heard) > gatewaySilentAfterMs) {
      // A control event may hide the gateway's last word; if it lives, it speaks again soon.
      const mayBeHidden = heard.length < words.length && context.deliveryCount * LOOK_AGAIN_MS < gatewaySilentAfterMs;
      return mayBeHidden
        ? { outcome: 'failed', reason: 'GatewayNotHeardYet', retryAfterMs: LOOK_AGAIN_MS }
        : { outcome: 'orphan', reason: 'GatewaySilent' };
    }
    const waitMs = slowDown(connectionKey(connection));
    return waitMs > 0 ? { outcome: 'failed', reason: 'RecreatedJustNow', retryAfterMs: waitMs } : undefined;
  };

  function slowDown(key: string): number {
    const nowMs = clock.monotonicMs();
    const last = recent.get(key);
    const waitMs = last === undefined ? 0 : Math.ceil(last.atMs + last.delayMs - nowMs);
    if (waitMs > 0) return waitMs;
    const calm = last === undefined || nowMs - last.atMs > 2 * MAX_DELAY_MS;
    recent.set(key, { atMs: nowMs, delayMs: calm ? FIRST_DELAY_MS : Math.min(last.delayMs * 2, MAX_DELAY_MS) });
    return 0;
  }
}
