import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PingCadence, phaseMs } from '../../shared/domain/ping-cadence.ts';

test('comes late by what its driver is late, and never drifts', () => {
  const cadence = new PingCadence(500, 2_000);
  let sent = 0;
  for (let tick = 0; tick < 300; tick++) {
    const dueMs = cadence.nextAtMs();
    expect(dueMs).toBe(500 + tick * 2_000);
    if (cadence.take(dueMs + 300) === 'regular') sent += 1;
  }
  expect(sent).toBe(300);
});

test('does not make up for a pause by a burst', () => {
  const cadence = new PingCadence(0, 100);
  cadence.take(0);
  expect(cadence.take(1_050)).toBe('regular');
  expect(cadence.take(1_050)).toBeUndefined();
  expect(cadence.nextAtMs()).toBe(1_100);
});

test('probes more often while asked to, and keeps its grid', () => {
  const cadence = new PingCadence(0, 2_000);
  cadence.take(0);
  cadence.startExtra(600, 250);
  const due: [number, string | undefined][] = [];
  for (let i = 0; i < 9; i++) {
    const atMs = cadence.nextAtMs();
    due.push([atMs, cadence.take(atMs)]);
  }
  expect(due.map(([atMs]) => atMs)).toEqual([600, 850, 1_100, 1_350, 1_600, 1_850, 2_000, 2_250, 2_500]);
  expect(due.filter(([, kind]) => kind === 'regular')).toEqual([[2_000, 'regular']]);
  cadence.stopExtra();
  expect(cadence.nextAtMs()).toBe(4_000);
});

test('needs no extra probes where the grid is dense enough', () => {
  const cadence = new PingCadence(0, 100);
  cadence.startExtra(10, 250);
  expect(cadence.nextAtMs()).toBe(0);
  cadence.take(0);
  expect(cadence.nextAtMs()).toBe(100);
});

test('whenever it is looked at, what is next lies ahead and on the grid', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e4, noNaN: true }),
      fc.integer({ min: 1, max: 5_000 }),
      fc.array(fc.double({ min: 0, max: 1e4, noNaN: true }), { maxLength: 50 }),
      (firstMs, intervalMs, steps) => {
        const cadence = new PingCadence(firstMs, intervalMs);
        let nowMs = 0;
        for (const step of steps) {
          nowMs += step;
          cadence.take(nowMs);
          expect(cadence.nextAtMs()).toBeGreaterThan(nowMs - (nowMs < firstMs ? Number.POSITIVE_INFINITY : 0));
          const periods = (cadence.nextAtMs() - firstMs) / intervalMs;
          expect(Math.abs(periods - Math.round(periods))).toBeLessThan(1e-6);
        }
      },
    ),
  );
});

test('spreads tunnels over the interval in at most 8 groups', () => {
  expect([0, 1, 2, 3].map((index) => phaseMs(index, 4, 2_000))).toEqual([0, 500, 1_000, 1_500]);
  const phases = Array.from({ length: 64 }, (_, index) => phaseMs(index, 64, 2_000));
  expect(new Set(phases).size).toBe(8);
  expect(Math.max(...phases)).toBeLessThan(2_000);
});
