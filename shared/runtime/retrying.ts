import type { Clock } from '../ports/clock.ts';
import type { EventBus } from '../ports/event-bus.ts';
import type { Logger } from '../ports/telemetry.ts';

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 30_000;

export type RetryOptions = {
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly what: string;
  /** Where the task needs it: when it comes back, the wait is over. */
  readonly bus?: Pick<EventBus, 'onHealthChange'>;
};

/** Calls `task` until it succeeds or `signal` aborts, with delays that double from 250 ms to 30 s; says why it waits. */
export async function retrying(task: () => Promise<void>, options: RetryOptions): Promise<void> {
  const { clock, log, signal, what, bus } = options;
  for (let delayMs = FIRST_DELAY_MS; !signal.aborted; delayMs = Math.min(delayMs * 2, MAX_DELAY_MS)) {
    try {
      await task();
      return;
    } catch (err) {
      if (signal.aborted) return;
      log.warn({ err, what, delayMs }, 'failed; trying again');
      if (await busReturnsWithin(delayMs, { clock, signal, bus })) delayMs = FIRST_DELAY_MS;
    }
  }
}

/** Waits, at most until the bus is back. */
async function busReturnsWithin(
  delayMs: number,
  { clock, signal, bus }: { clock: Clock; signal: AbortSignal; bus: RetryOptions['bus'] },
): Promise<boolean> {
  const back = new AbortController();
  const stopListening = bus?.onHealthChange(({ connected }) => {
    if (connected) back.abort();
  });
  await clock.sleep(delayMs, AbortSignal.any([signal, back.signal])).catch(() => {});
  stopListening?.();
  return back.signal.aborted;
}
