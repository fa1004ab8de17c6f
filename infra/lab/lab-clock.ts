import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { Clock, Timer } from '../../shared/ports/clock.ts';

/** The system's clock, but for a wall clock that somebody sets: durations do not change by it. */
export class LabClock implements Clock {
  #aheadMs = 0;

  stepBy(ms: number): void {
    this.#aheadMs += ms;
  }

  unixMs(): number {
    return systemClock.unixMs() + this.#aheadMs;
  }

  monotonicMs(): number {
    return systemClock.monotonicMs();
  }

  after(delayMs: number, task: () => void): Timer {
    return systemClock.after(delayMs, task);
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep(delayMs, signal);
  }
}
