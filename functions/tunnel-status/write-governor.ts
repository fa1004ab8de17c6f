import type { Clock } from '../../shared/ports/clock.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

const FIRST_BACK_OFF_MS = 1_000;
const MAX_BACK_OFF_MS = 30_000;
/** A write that takes this long shows an API under strain. */
const SLOW_WRITE_MS = 100;
/** Refreshes may take one part in this many of a partition's time while the API is slow; transitions go first. */
const REFRESH_SHARE = 4;

/** Connections in trouble that are remembered. */
const MAX_REMEMBERED = 10_000;

/** `BackingOff`: this Connection's last write failed. `Shed`: a mere refresh, while the API is slow. */
export type Hold = 'BackingOff' | 'Shed';

/**
 * Keeps the trouble of one Connection, or of a slow API, from stalling a partition. In memory only:
 * a replica that starts anew asks the API once and learns.
 */
export type WriteGovernor = {
  hold(connection: string, partition: string, isTransition: boolean): Hold | undefined;
  /** Learns how long the calls of one attempt took. */
  took(partition: string, isTransition: boolean, tookMs: number): void;
  failed(connection: string, retryAfterMs: number | undefined): void;
  succeeded(connection: string): void;
};

export function writeGovernor(clock: Clock): WriteGovernor {
  const backOffs = new BoundedMap<string, { readonly untilMs: number; readonly delayMs: number }>(MAX_REMEMBERED);
  const refreshNotBefore = new Map<string, number>();
  return {
    hold(connection, partition, isTransition) {
      const nowMs = clock.monotonicMs();
      if (nowMs < (backOffs.get(connection)?.untilMs ?? 0)) return 'BackingOff';
      if (!isTransition && nowMs < (refreshNotBefore.get(partition) ?? 0)) return 'Shed';
      return undefined;
    },
    took(partition, isTransition, tookMs) {
      if (isTransition || tookMs < SLOW_WRITE_MS) return;
      refreshNotBefore.set(partition, clock.monotonicMs() + tookMs * (REFRESH_SHARE - 1));
    },
    failed(connection, retryAfterMs) {
      const previousMs = backOffs.get(connection)?.delayMs;
      const delayMs = previousMs === undefined ? FIRST_BACK_OFF_MS : Math.min(previousMs * 2, MAX_BACK_OFF_MS);
      const untilMs = clock.monotonicMs() + Math.min(Math.max(delayMs, retryAfterMs ?? 0), MAX_BACK_OFF_MS);
      backOffs.set(connection, { untilMs, delayMs });
    },
    succeeded(connection) {
      backOffs.delete(connection);
    },
  };
}
