import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { isOfRun, isSpokenByGateway } from '../../shared/domain/silence.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { lastWordsReader } from '../../shared/runtime/last-words.ts';

const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
/** Connections that were made again. */
const MAX_REMEMBERED = 10_000;

/**
 * A Connection that is missing is made again only while its gateway speaks: a gateway that is gone takes its Connection
 * with it. And ever more slowly where it goes again and again: against the garbage collector nobody wins.
 */
export function recreationGuard(
  { bus, clock }: Pick<FunctionPorts, 'bus' | 'clock'>,
  { gatewaySilentAfterMs }: FunctionSettings,
) {
  const made = new BoundedMap<string, { readonly atMs: number; readonly delayMs: number }>(MAX_REMEMBERED);
  const lastWords = lastWordsReader(bus);

  return {
    /** It was made again just now. */
    note(connection: ConnectionRef): void {
      const atMs = clock.monotonicMs();
      const last = made.get(connectionKey(connection));
      const isCalm = last === undefined || atMs - last.atMs > 2 * MAX_DELAY_MS;
      const delayMs = isCalm ? FIRST_DELAY_MS : Math.min(last.delayMs * 2, MAX_DELAY_MS);
      made.set(connectionKey(connection), { atMs, delayMs });
    },

    /** Why it is not made now; `undefined`: it may be. Times are the server's. */
    async refusal(
      connection: ConnectionRef,
      nowUnixMs: number,
      announced: { readonly epoch: number; readonly atUnixMs: number },
    ): Promise<'GatewaySilent' | 'GatewayNotHeardYet' | 'OlderRunSpeaks' | 'RecreatedJustNow' | undefined> {
      const words = await lastWords(connection);
      const spoken = words.filter(isSpokenByGateway);
      const heard = spoken.filter((word) => isOfRun(word, announced.epoch));
      const isLongAgo = (timesUnixMs: readonly number[]) => nowUnixMs - Math.max(...timesUnixMs) > gatewaySilentAfterMs;
      if (isLongAgo([announced.atUnixMs, ...heard.map(({ storedAtUnixMs }) => storedAtUnixMs)])) {
        if (spoken.some(({ storedAtUnixMs }) => !isLongAgo([storedAtUnixMs]))) return 'OlderRunSpeaks';
        // A control event may hide the gateway's last word; if it lives, it speaks again soon.
        return spoken.length < words.length ? 'GatewayNotHeardYet' : 'GatewaySilent';
      }
      const last = made.get(connectionKey(connection));
      return last !== undefined && clock.monotonicMs() < last.atMs + last.delayMs ? 'RecreatedJustNow' : undefined;
    },
  };
}
