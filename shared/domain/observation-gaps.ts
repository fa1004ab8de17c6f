import type { Observation } from './observation.ts';

/** How far the observations of one tunnel have come. */
export type ObservationCursor = { gatewayEpoch: number; sequence: number };

/**
 * Moves `cursor` on to `event`.
 *
 * @returns how many observations the gateway made between the two that never came; 0 for the first one, for one that is
 * not newer, and where coalesced ones account for them
 */
export function missingBefore(cursor: ObservationCursor, event: Observation): number {
  const isFirst = cursor.gatewayEpoch === 0;
  if (event.gatewayEpoch < cursor.gatewayEpoch) return 0;
  const last = event.gatewayEpoch === cursor.gatewayEpoch ? cursor.sequence : 0;
  if (event.sequence <= last) return 0;
  cursor.gatewayEpoch = event.gatewayEpoch;
  cursor.sequence = event.sequence;
  return isFirst ? 0 : Math.max(0, event.sequence - last - 1 - (event.coalesced ?? 0));
}
