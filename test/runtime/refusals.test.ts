import { describe, expect, it } from 'vitest';
import { StoreError } from '../../shared/ports/connection-store.ts';
import { BusError } from '../../shared/ports/event-bus.ts';
import { Refusals } from '../../shared/runtime/refusals.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

describe('refusals', () => {
  it.each([
    new StoreError('forbidden', 'no role', { status: 403 }),
    new StoreError('schema', 'run setup', { status: 500 }),
    new BusError('denied', 'no permission'),
  ])('tell of %o until the same kind of call is well again', async (error) => {
    const refusals = new Refusals(new VirtualClock());
    await expect(refusals.learn('write', () => Promise.reject(error))).rejects.toBe(error);
    expect(refusals.health()).toEqual({ ok: false, reason: error.message });
    await refusals.learn('get', async () => {});
    expect(refusals.health().ok).toBe(false);
    expect(await refusals.learn('write', async () => 7)).toBe(7);
    expect(refusals.health()).toEqual({ ok: true });
  });

  it.each([
    new StoreError('conflict', 'moved on', { status: 409 }),
    new StoreError('unavailable', 'no answer'),
    new BusError('unavailable', 'no leader'),
  ])('say nothing of %o, which passes by itself', async (error) => {
    const refusals = new Refusals(new VirtualClock());
    await expect(refusals.learn('write', () => Promise.reject(error))).rejects.toBe(error);
    expect(refusals.health()).toEqual({ ok: true });
  });

  it('are forgotten where nobody tries any more', async () => {
    const clock = new VirtualClock();
    const refusals = new Refusals(clock);
    await refusals.learn('write', () => Promise.reject(new BusError('denied', 'no'))).catch(() => {});
    await clock.advance(59_000);
    expect(refusals.health().ok).toBe(false);
    await clock.advance(2_000);
    expect(refusals.health().ok).toBe(true);
  });
});
