import { describe, expect, test } from 'vitest';
import { systemClock } from '../../shared/adapters/system-clock.ts';

describe('the system clock', () => {
  test('runs a task once, later', async () => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const startMs = systemClock.monotonicMs();
    systemClock.after(5, () => resolve(systemClock.monotonicMs()));
    expect(await promise).toBeGreaterThan(startMs);
  });

  test('does not run what is cancelled, and cancels twice', async () => {
    const timer = systemClock.after(0, () => expect.unreachable());
    timer.cancel();
    timer.cancel();
    await systemClock.sleep(5);
  });

  test('does not fire at once for a delay that setTimeout cannot keep', async () => {
    const timer = systemClock.after(2 ** 31 + 1_000, () => expect.unreachable());
    await systemClock.sleep(5);
    timer.cancel();
  });

  test('ends a sleep with the reason of the signal, before and during', async () => {
    await expect(systemClock.sleep(60_000, AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
    const controller = new AbortController();
    const sleeping = systemClock.sleep(60_000, controller.signal);
    controller.abort(new Error('during'));
    await expect(sleeping).rejects.toThrow('during');
  });

  test('tells both times in milliseconds', () => {
    expect(Math.abs(systemClock.unixMs() - Date.now())).toBeLessThan(10_000);
    expect(systemClock.monotonicMs()).toBeLessThanOrEqual(performance.now());
  });
});
