import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/telemetry.ts';

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 30_000;

/** Calls `task` until it succeeds or `signal` aborts, with delays that double from 250 ms to 30 s; says why it waits. */
export async function retrying(
  task: () => Promise<void>,
  options: { readonly clock: Clock; readonly log: Logger; readonly signal: AbortSignal; readonly what: string },
): Promise<void> {
  const { clock, log, signal, what } = options;
  for (let delayMs = FIRST_DELAY_MS; !signal.aborted; delayMs = Math.min(delayMs * 2, MAX_DELAY_MS)) {
    try {
      await task();
      return;
    } catch (err) {
      if (signal.aborted) return;
      log.warn({ err, what, delayMs }, 'failed; trying again');
      await clock.sleep(delayMs, signal).catch(() => {});
    }
  }
}
