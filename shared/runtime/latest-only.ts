import type { Clock, Timer } from '../ports/clock.ts';

type Slot = {
  isRunning: boolean;
  waiting?: PromiseWithResolvers<boolean>;
  /** When the one that waits may run, on the monotonic clock. */
  dueMs: number;
  timer?: Timer;
};

export type LatestOnly = <Result>(
  key: string,
  task: () => Promise<Result>,
  delayMs?: number,
) => Promise<Result | undefined>;

/**
 * Runs the tasks of one key one after another, and of those that wait only the last: each is about the same thing, as it
 * is by then. A task may wait `delayMs` for company; whoever comes meanwhile takes its place, and its time, or an earlier
 * one. Resolves to `undefined` for a task that was passed over.
 */
export function latestOnly(clock: Clock): LatestOnly {
  const slots = new Map<string, Slot>();

  function runIfDue(slot: Slot): void {
    if (slot.isRunning || slot.waiting === undefined) return;
    slot.timer?.cancel();
    const leftMs = slot.dueMs - clock.monotonicMs();
    if (leftMs > 0) {
      slot.timer = clock.after(leftMs, () => runIfDue(slot));
      return;
    }
    const { waiting } = slot;
    delete slot.waiting;
    slot.dueMs = Number.POSITIVE_INFINITY;
    slot.isRunning = true;
    waiting.resolve(true);
  }

  return async (key, task, delayMs = 0) => {
    const slot = slots.get(key) ?? { isRunning: false, dueMs: Number.POSITIVE_INFINITY };
    slots.set(key, slot);
    slot.waiting?.resolve(false);
    const turn = Promise.withResolvers<boolean>();
    slot.waiting = turn;
    slot.dueMs = Math.min(slot.dueMs, delayMs > 0 ? clock.monotonicMs() + delayMs : 0);
    runIfDue(slot);
    if (!(await turn.promise)) return undefined;
    try {
      return await task();
    } finally {
      slot.isRunning = false;
      if (slot.waiting === undefined) slots.delete(key);
      else runIfDue(slot);
    }
  };
}
