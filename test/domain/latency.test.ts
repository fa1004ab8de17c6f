import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatLatency, parseLatency } from '../../shared/domain/latency.ts';
import { MAX_RTT_NS } from '../../shared/domain/observation.ts';

describe('formatLatency', () => {
  it.each([
    [1_234_000, '1.234ms'],
    [1_234_499, '1.234ms'],
    [1_234_500, '1.235ms'],
    [350_000, '350µs'],
    [1_500_000_000, '1.5s'],
    [MAX_RTT_NS, '1m0s'],
  ])('writes %d ns as %s', (ns, text) => {
    expect(formatLatency(ns)).toBe(text);
  });

  it('never shows a measured round trip as zero', () => {
    expect(formatLatency(1)).toBe('1µs');
    expect(formatLatency(499)).toBe('1µs');
  });

  it.each([0, -120, Number.NaN, Number.POSITIVE_INFINITY])('refuses %d: there is no such measurement', (ns) => {
    expect(() => formatLatency(ns)).toThrow(RangeError);
  });

  it('is read back within half a microsecond, and survives a second pass unchanged', () => {
    fc.assert(
      fc.property(fc.integer({ min: 500, max: MAX_RTT_NS }), (ns) => {
        const text = formatLatency(ns);
        const back = parseLatency(text) ?? Number.NaN;
        expect(Math.abs(back - ns)).toBeLessThanOrEqual(500);
        expect(formatLatency(back)).toBe(text);
      }),
    );
  });
});

describe('parseLatency', () => {
  it.each(['', 'N/A', '-1ms', '12', '1.2.3s'])('refuses %j', (text) => {
    expect(parseLatency(text)).toBeUndefined();
  });
});
