import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration, parseDuration } from '../../shared/domain/duration.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** From the tables of Go's own time_test.go: what it accepts, what it refuses, what it prints. */
const accepted: readonly (readonly [string, number])[] = [
  ['0', 0],
  ['-0', 0],
  ['5s', 5 * SECOND_MS],
  ['30s', 30 * SECOND_MS],
  ['1478s', 1478 * SECOND_MS],
  ['-5s', -5 * SECOND_MS],
  ['+5s', 5 * SECOND_MS],
  ['5.0s', 5 * SECOND_MS],
  ['5.6s', 5_600],
  ['5.s', 5 * SECOND_MS],
  ['.5s', 500],
  ['1.0040s', 1_004],
  ['100.00100s', 100_001],
  ['10ns', 1e-5],
  ['11us', 0.011],
  ['12µs', 0.012],
  ['12μs', 0.012],
  ['13ms', 13],
  ['15m', 15 * MINUTE_MS],
  ['16h', 16 * HOUR_MS],
  ['3h30m', 3 * HOUR_MS + 30 * MINUTE_MS],
  ['10.5s4m', 4 * MINUTE_MS + 10_500],
  ['-2m3.4s', -(2 * MINUTE_MS + 3_400)],
  ['1h2m3s4ms5us6ns', HOUR_MS + 2 * MINUTE_MS + 3 * SECOND_MS + 4.005006],
  ['52763797000ns', 52_763.797],
  ['0.100000000000000000000h', 6 * MINUTE_MS],
  ['9223372036854775807ns', 9223372036854.775],
];
const refused = [
  '',
  '3',
  '-',
  's',
  '.',
  '-.',
  '.s',
  '+.s',
  '1d',
  '5 s',
  ' 5s',
  '1e3s',
  '3000000h',
  '9223372036854775808ns',
];
const printed: readonly (readonly [number, string])[] = [
  [0, '0s'],
  [1e-6, '1ns'],
  [1.1e-3, '1.1µs'],
  [2.2, '2.2ms'],
  [3_300, '3.3s'],
  [4 * MINUTE_MS + 5 * SECOND_MS, '4m5s'],
  [4 * MINUTE_MS + 5_001, '4m5.001s'],
  [5 * HOUR_MS + 6 * MINUTE_MS + 7_001, '5h6m7.001s'],
  [8 * MINUTE_MS + 1e-6, '8m0.000000001s'],
  [-1.5, '-1.5ms'],
];

describe('parseDuration', () => {
  it.each(accepted)('reads %s as Go does', (text, ms) => {
    expect(parseDuration(text)).toBeCloseTo(ms, 9);
  });

  it.each(refused)('refuses %j as Go does', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });
});

describe('formatDuration', () => {
  it.each(printed)('writes %d ms as Go does: %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])('refuses %d', (ms) => {
    expect(() => formatDuration(ms)).toThrow(RangeError);
  });

  it('writes what parseDuration reads back, to the nanosecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1e15, max: 1e15 }), (ns) => {
        const back = parseDuration(formatDuration(ns / 1e6)) ?? Number.NaN;
        expect(Math.round(back * 1e6)).toBe(ns);
      }),
    );
  });
});
