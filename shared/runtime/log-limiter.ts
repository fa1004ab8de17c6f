import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/telemetry.ts';

type Level = 'info' | 'warn' | 'error';

/**
 * Lets a line through once a period for each key, with the number of those that were held back since: no fault and no
 * flood of datagrams becomes a flood of lines. Keys come from code and configuration only.
 */
export class LogLimiter {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #periodMs: number;
  readonly #lines = new Map<string, { nextAtMs: number; suppressed: number }>();

  constructor(log: Logger, clock: Clock, periodMs: number) {
    this.#log = log;
    this.#clock = clock;
    this.#periodMs = periodMs;
  }

  write(level: Level, key: string, fields: object, message: string): void {
    const now = this.#clock.monotonicMs();
    const line = this.#lines.get(key) ?? { nextAtMs: Number.NEGATIVE_INFINITY, suppressed: 0 };
    this.#lines.set(key, line);
    if (now < line.nextAtMs) {
      line.suppressed += 1;
      return;
    }
    const { suppressed } = line;
    line.nextAtMs = now + this.#periodMs;
    line.suppressed = 0;
    this.#log[level](suppressed === 0 ? fields : { ...fields, suppressed }, message);
  }
}
