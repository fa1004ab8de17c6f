import type { Clock, Timer } from '../ports/clock.ts';

/** The longest delay that setTimeout keeps; a longer one would fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** The clock of this process. Its timers keep the process alive: who waits, waits for a reason; who stops, cancels. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  unixMs: () => Date.now(),
  after,
  sleep: (delayMs, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        timer.cancel();
        reject(signal?.reason);
      };
      const timer = after(delayMs, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      signal?.addEventListener('abort', onAbort, { once: true });
    }),
};

function after(delayMs: number, task: () => void): Timer {
  let remainingMs = Math.max(0, Math.ceil(delayMs)); // setTimeout cuts a fraction off, and would come too early
  let handle: NodeJS.Timeout;
  const wait = () => {
    const stepMs = Math.min(remainingMs, MAX_TIMEOUT_MS);
    remainingMs -= stepMs;
    handle = setTimeout(remainingMs > 0 ? wait : task, stepMs);
  };
  wait();
  return { cancel: () => clearTimeout(handle) };
}
