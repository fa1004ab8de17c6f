import { expect, test } from 'vitest';
import { PullPriority } from '../../shared/adapters/nats-pull-priority.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const LAST = 9;

test('a replica draws one of the nine priorities above the last, and keeps it while all is well', () => {
  const drawn = Array.from({ length: 400 }, () => new PullPriority(new VirtualClock()));
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
  const priority = new PullPriority(clock);
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
