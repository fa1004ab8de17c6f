import { expect, test } from 'vitest';
import { VirtualClock } from './virtual-clock.ts';

test('runs timers by due time, then by the order in which they were set', async () => {
  const clock = new VirtualClock();
  const ran: string[] = [];
  for (const [delayMs, name] of [
    [30, 'c'],
    [10, 'a1'],
    [20, 'b'],
    [10, 'a2'],
  ] as const) {
    clock.after(delayMs, () => ran.push(`${name}@${clock.monotonicMs()}`));
  }
  await clock.advance(25);
  expect(ran).toEqual(['a1@10', 'a2@10', 'b@20']);
  expect(clock.monotonicMs()).toBe(25);
});

test('lets promises do their work between two timers', async () => {
  const clock = new VirtualClock();
  const ran: string[] = [];
  clock.after(10, async () => {
    for (let i = 0; i < 20; i++) await undefined;
    ran.push('first, after many turns');
  });
  clock.after(10, () => ran.push('second'));
  await clock.advance(10);
  expect(ran).toEqual(['first, after many turns', 'second']);
});

test('runs what timers and sleepers set on the way, if it is due', async () => {
  const clock = new VirtualClock();
  const ran: number[] = [];
  const loop = async () => {
    for (;;) {
      await clock.sleep(10);
      ran.push(clock.monotonicMs());
    }
  };
  void loop();
  await clock.advance(35);
  expect(ran).toEqual([10, 20, 30]);
});

test('does not run what was cancelled', async () => {
  const clock = new VirtualClock();
  const timer = clock.after(10, () => expect.unreachable());
  timer.cancel();
  timer.cancel();
  await clock.advance(20);
});

test('ends a sleep with the reason of the signal', async () => {
  const clock = new VirtualClock();
  const controller = new AbortController();
  const sleeping = clock.sleep(10, controller.signal);
  controller.abort(new Error('enough'));
  await expect(sleeping).rejects.toThrow('enough');
  await expect(clock.sleep(10, controller.signal)).rejects.toThrow('enough');
  await clock.advance(20);
});

test('steps the wall clock alone', async () => {
  const clock = new VirtualClock(1_000_000);
  await clock.advance(5);
  clock.stepUnix(-3_600_000);
  expect(clock.unixMs()).toBe(1_000_005 - 3_600_000);
  expect(clock.monotonicMs()).toBe(5);
});

test('advances until something holds, and fails where it never does', async () => {
  const clock = new VirtualClock();
  let isDone = false;
  clock.after(500, () => {
    isDone = true;
  });
  await clock.advanceUntil(() => isDone);
  expect(clock.monotonicMs()).toBe(500);
  await expect(clock.advanceUntil(() => false, 100)).rejects.toThrow('100 ms');
});
