import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  addNanos,
  compareNanos,
  formatRfc3339Ms,
  formatRfc3339Nanos,
  parseRfc3339,
  unixNanosOfMs,
} from '../../shared/domain/rfc3339-nanos.ts';

const instant = fc.record({
  seconds: fc.integer({ min: -62_167_219_200, max: 253_402_300_799 }), // years 0000 to 9999
  nanos: fc.integer({ min: 0, max: 999_999_999 }),
});

test('writes what it reads, to the nanosecond, over all years', () => {
  fc.assert(
    fc.property(instant, (value) => {
      expect(parseRfc3339(formatRfc3339Nanos(value))).toEqual(value);
    }),
  );
});

test('agrees with Date on milliseconds', () => {
  fc.assert(
    fc.property(
      fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59.999Z'), noInvalidDate: true }),
      (date) => {
        expect(formatRfc3339Ms(date.getTime())).toBe(date.toISOString());
        expect(parseRfc3339(date.toISOString())).toEqual(unixNanosOfMs(date.getTime()));
      },
    ),
  );
});

test('reads the same instant with fewer digits and other offsets', () => {
  const want = { seconds: 1_767_323_045, nanos: 120_000_000 };
  for (const text of [
    '2026-01-02T03:04:05.12Z',
    '2026-01-02T03:04:05.120000000Z',
    '2026-01-02T03:04:05.12+00:00',
    '2026-01-02T05:34:05.12+02:30',
    '2026-01-01T23:04:05.12-04:00',
  ]) {
    expect(parseRfc3339(text), text).toEqual(want);
  }
});

test('refuses what is no instant', () => {
  for (const text of [
    '',
    'now',
    '2026-01-02',
    '2026-01-02T03:04:05',
    '2026-01-02T03:04:05.Z',
    '2026-01-02T03:04:05.1234567890Z',
    '2026-02-29T03:04:05Z',
    '2026-13-02T03:04:05Z',
    '2026-01-02T24:04:05Z',
    '2026-01-02T03:04:60Z',
    '2026-01-02 03:04:05Z',
    '2026-01-02T03:04:05+24:00',
    '2026-01-02T03:04:05Zx',
    '２026-01-02T03:04:05Z',
  ]) {
    expect(parseRfc3339(text), text).toBeUndefined();
  }
});

test('never throws, and reads nothing that it would not write as the same instant', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 40, unit: fc.constantFrom(...'0123456789-:TZ.+ é') }), (text) => {
      const value = parseRfc3339(text);
      if (value !== undefined) expect(parseRfc3339(formatRfc3339Nanos(value))).toEqual(value);
    }),
  );
});

test('adds and orders nanoseconds without losing any', () => {
  fc.assert(
    fc.property(instant, fc.integer({ min: 1, max: 90_000_000_000 }), (value, deltaNs) => {
      const later = addNanos(value, deltaNs);
      expect(compareNanos(later, value)).toBeGreaterThan(0);
      const asBigint = ({ seconds, nanos }: typeof value) => BigInt(seconds) * 1_000_000_000n + BigInt(nanos);
      expect(asBigint(later) - asBigint(value)).toBe(BigInt(deltaNs));
    }),
  );
});
