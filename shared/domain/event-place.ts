/** Where an event stands in its stream, by the server's count and the server's time. */
export type EventPlace = { readonly sequence: number; readonly storedAtUnixMs: number };

/** Sequences begin again where somebody makes a stream anew: what comes before must be older, too. */
export function isBefore(place: EventPlace, other: EventPlace): boolean {
  return place.sequence < other.sequence && place.storedAtUnixMs <= other.storedAtUnixMs;
}
