import { addNanos, compareNanos, type UnixNanos, unixNanosOfMs } from './rfc3339-nanos.ts';

/**
 * Time stamps of one run's PINGs: each later than the one before, as it is the PING's identity. They follow the
 * monotonic clock from the wall clock's time at the start, so that a step of the wall clock changes nothing.
 */
export class StampSource {
  readonly #origin: UnixNanos;
  #last: UnixNanos;

  /** @param unixMs - wall clock at monotonic 0 */
  constructor(unixMs: number) {
    this.#origin = unixNanosOfMs(unixMs);
    this.#last = { seconds: Number.NEGATIVE_INFINITY, nanos: 0 };
  }

  next(monotonicMs: number): UnixNanos {
    const stamp = addNanos(this.#origin, Math.round(monotonicMs * 1e6));
    this.#last = compareNanos(stamp, this.#last) > 0 ? stamp : addNanos(this.#last, 1);
    return this.#last;
  }
}
