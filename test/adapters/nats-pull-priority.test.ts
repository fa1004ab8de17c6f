import { expect, test } from 'vitest';
import { PullPriority } from '../../shared/adapters/nats-pull-priority.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const LAST = 9;
const PULLED = 100;

test('a replica draws one of the nine priorities above the last, and keeps it while all is well', () => {
  const drawn = Array.from({ length: 400 }, () => new PullPriority(new VirtualClock(), PULLED));
  const first = drawn.map(({ current }) => current);
  expect([...new Set(first)].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  for (const priority of drawn) {
    priority.settled({ kind: 'ack' });
    priority.settled({ kind: 'terminate', reason: 'Malformed' });
  }
  expect(drawn.map(({ current }) => current)).toEqual(first);
});

test.for([
  { kind: 'ack', failed: true },
  { kind: 'retry', delayMs: 0 },
] as const)('it is last for ten seconds after $kind of what it could not do, then as before', async (trouble) => {
  const clock = new VirtualClock();
  const priority = new PullPriority(clock, PULLED);
  const own = priority.current;
  priority.settled(trouble);
  await clock.advance(9_000);
  expect(priority.current).toBe(LAST);
  priority.settled(trouble);
  priority.settled({ kind: 'ack' }); // one that went well proves little: most events need no call
  await clock.advance(9_999);
  expect(priority.current).toBe(LAST);
  await clock.advance(1);
  expect(priority.current).toBe(own);
});

/** Tells them of deliveries with so many of others between each two. */
function deliver(priorities: readonly PullPriority[], count: number, between: number, from = 1): number {
  let sequence = from;
  for (let n = 0; n < count; n++) {
    for (const priority of priorities) priority.delivered(sequence);
    sequence += between + 1;
  }
  return sequence;
}
const drawnBy = (priorities: readonly PullPriority[]) => priorities.map(({ current }) => current).join();

test('who takes turns with another draws again, and then not until its pulls of before are served', () => {
  const priorities = Array.from({ length: 50 }, () => new PullPriority(new VirtualClock(), PULLED));
  const first = drawnBy(priorities);
  let next = deliver(priorities, 4, 1); // the first came after nobody
  expect(drawnBy(priorities)).toBe(first);
  next = deliver(priorities, 1, 1, next);
  const second = drawnBy(priorities);
  expect(second).not.toBe(first);
  next = deliver(priorities, PULLED + 3, 1, next);
  expect(drawnBy(priorities)).toBe(second);
  deliver(priorities, 1, 1, next);
  expect(drawnBy(priorities)).not.toBe(second);
});

test.for([
  ['has them all', 0],
  ['gets one of many, while the other pulls anew', 20],
] as const)('who %s keeps what it drew', ([, between]) => {
  const priorities = Array.from({ length: 50 }, () => new PullPriority(new VirtualClock(), PULLED));
  const first = drawnBy(priorities);
  deliver(priorities, 1_000, between);
  expect(drawnBy(priorities)).toBe(first);
});
