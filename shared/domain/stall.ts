import type { Moment } from './sighting.ts';

/**
 * A time during which this process itself stood still: whatever is read right after it may have waited for as long.
 * Up to {@link NOTABLE_STALL_MS} that is the common noise of a round trip.
 */
export type Stall = { readonly from: Moment; readonly to: Moment };

export const NOTABLE_STALL_MS = 100;

/** The time of `durationMs` that ends `now`. */
export function stallBefore(now: Moment, durationMs: number): Stall {
  return { from: { monotonicMs: now.monotonicMs - durationMs, unixMs: now.unixMs - durationMs }, to: now };
}

export function durationOf({ from, to }: Stall): number {
  return to.monotonicMs - from.monotonicMs;
}
