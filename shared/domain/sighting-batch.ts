import type { ConnectionValue } from './connection.ts';
import type { Sighting } from './sighting.ts';

/**
 * Sightings on their way from one thread to another: numbers in one block of memory that changes hands, instead of
 * objects that are copied one by one.
 */
export type SightingBatch = {
  /** Rows of {@link COLUMNS} numbers each. */
  readonly rows: Float64Array<ArrayBuffer>;
  /** What `interfaceId`, `reason` and `message` point into, each text once. */
  readonly texts: readonly string[];
};

const COLUMNS = 11;
const KINDS: readonly Sighting['kind'][] = ['pong', 'miss', 'down', 'unmonitored'];
const VALUES: readonly ConnectionValue[] = ['Connected', 'Connecting', 'Error'];
/** In place of a number or text that is not there; no field has a negative number. */
const NONE = -1;

export function packSightings(sightings: readonly Sighting[]): SightingBatch {
  const rows = new Float64Array(sightings.length * COLUMNS);
  const texts: string[] = [];
  const indexes = new Map<string, number>();
  const indexOf = (text: string | undefined): number => {
    if (text === undefined) return NONE;
    const known = indexes.get(text);
    if (known !== undefined) return known;
    indexes.set(text, texts.length);
    return texts.push(text) - 1;
  };
  let at = 0;
  for (const sighting of sightings) {
    rows[at++] = indexOf(sighting.interfaceId);
    rows[at++] = sighting.sequence;
    rows[at++] = sighting.monotonicMs;
    rows[at++] = sighting.observedAtUnixMs;
    rows[at++] = KINDS.indexOf(sighting.kind);
    rows[at++] = VALUES.indexOf(sighting.value);
    rows[at++] = sighting.rttNs ?? NONE;
    rows[at++] = sighting.minRttNs ?? NONE;
    rows[at++] = sighting.consecutiveMisses ?? NONE;
    rows[at++] = indexOf(sighting.reason);
    rows[at++] = indexOf(sighting.message);
  }
  return { rows, texts };
}

export function unpackSightings({ rows, texts }: SightingBatch): Sighting[] {
  const sightings: Sighting[] = [];
  for (let at = 0; at < rows.length; at += COLUMNS) {
    const number = (column: number) => rows[at + column] as number;
    const sighting: { -readonly [Field in keyof Sighting]: Sighting[Field] } = {
      interfaceId: texts[number(0)] as string,
      sequence: number(1),
      monotonicMs: number(2),
      observedAtUnixMs: number(3),
      kind: KINDS[number(4)] as Sighting['kind'],
      value: VALUES[number(5)] as ConnectionValue,
    };
    if (number(6) !== NONE) sighting.rttNs = number(6);
    if (number(7) !== NONE) sighting.minRttNs = number(7);
    if (number(8) !== NONE) sighting.consecutiveMisses = number(8);
    if (number(9) !== NONE) sighting.reason = texts[number(9)] as string;
    if (number(10) !== NONE) sighting.message = texts[number(10)] as string;
    sightings.push(sighting);
  }
  return sightings;
}
