import type { Logger } from '../ports/telemetry.ts';
import { Interrupted } from './errors.ts';

/** Longest time that work may take to end after SIGTERM: with what follows under 10 s, well under Kubernetes' 30. */
export const DRAIN_TIMEOUT_MS = 7_000;

/** SIGHUP: the terminal is gone. */
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Aborts on the first of these signals: time to take nothing in any more and to finish what is at hand.
 * What ends because of it has {@link Interrupted} as its cause. A second one ends the process at once with exit code 1.
 */
export function abortOnStopSignal(logger: Logger): AbortSignal {
  const stop = new AbortController();
  const onSignal = (signal: NodeJS.Signals) => {
    if (stop.signal.aborted) {
      logger.warn({ signal }, 'second signal: ends at once');
      process.exit(1);
    }
    logger.info({ signal }, 'stopping: finishes what is at hand, a second signal ends at once');
    stop.abort(new Interrupted(signal));
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return stop.signal;
}

/**
 * Gives `work` a bound: what hangs at the end of a process must not keep it.
 *
 * @returns whether it was done in time
 */
export async function finishesWithin(timeoutMs: number, work: Promise<unknown>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(() => resolve(false), timeoutMs);
  try {
    return await Promise.race([work.then(() => true as const), late]);
  } finally {
    clearTimeout(timer);
  }
}
