import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packSightings, unpackSightings } from '../../shared/domain/sighting-batch.ts';

const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined });
const sighting = fc
  .record({
    interfaceId: fc.constantFrom('liqo-tunnel', 'liqo-tunnel1'),
    sequence: fc.integer({ min: 1 }),
    monotonicMs: fc.double({ min: 0, max: 1e12, noNaN: true }),
    observedAtUnixMs: fc.double({ min: 0, max: 1e13, noNaN: true }),
    kind: fc.constantFrom('pong' as const, 'miss' as const, 'down' as const, 'unmonitored' as const),
    value: fc.constantFrom('Connected' as const, 'Connecting' as const, 'Error' as const),
    rttNs: optional(fc.integer({ min: 1, max: 60_000_000_000 })),
    minRttNs: optional(fc.integer({ min: 1 })),
    consecutiveMisses: optional(fc.nat()),
    reason: optional(fc.constantFrom('Lost', '')),
    message: optional(fc.string()),
  })
  // A field that is not there is left out.
  .map((value) => Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as typeof value);

test('what is packed comes out the same, in the same order', () => {
  fc.assert(
    fc.property(fc.array(sighting), (sightings) => {
      const batch = packSightings(sightings as never);
      expect(unpackSightings(structuredClone(batch, { transfer: [batch.rows.buffer] }))).toStrictEqual(sightings);
    }),
  );
});
