import type { Clock } from '../ports/clock.ts';

/**
 * Waits until an event is due, `speed` times as fast as it happened, by the server's times of the events. Who comes late
 * does not wait and makes up for it.
 *
 * @param speed - `Infinity`: nobody waits
 */
export function pacer(
  clock: Clock,
  speed: number,
): (storedAtUnixMs: number, signal: AbortSignal) => Promise<void> | undefined {
  let origin: { readonly monotonicMs: number; readonly storedAtUnixMs: number } | undefined;
  return (storedAtUnixMs, signal) => {
    if (speed === Number.POSITIVE_INFINITY) return undefined;
    const nowMs = clock.monotonicMs();
    origin ??= { monotonicMs: nowMs, storedAtUnixMs };
    const waitMs = origin.monotonicMs + (storedAtUnixMs - origin.storedAtUnixMs) / speed - nowMs;
    return waitMs < 1 ? undefined : clock.sleep(waitMs, signal).catch(() => {});
  };
}
