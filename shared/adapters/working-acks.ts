import type { Clock, Timer } from '../ports/clock.ts';

/** How long a handler may keep one delivery, in ack waits; then it counts as stuck and somebody else gets the message. */
const HOLD_LIMIT_ACK_WAITS = 6;
const TICKS_PER_ACK_WAIT = 3;

/**
 * Says "still working" for deliveries whose handler takes long, so that a slow one is not handled twice,
 * up to a bound, so that a stuck one is. One timer for all, which runs only while something is in work.
 */
export class WorkingAcks<Key> {
  readonly #clock: Clock;
  readonly #tickMs: number;
  readonly #limitMs: number;
  readonly #extend: (key: Key) => void;
  readonly #startedMs = new Map<Key, number>();
  #timer: Timer | undefined;

  /** @param extend - gives the delivery another ack wait from now */
  constructor(clock: Clock, ackWaitMs: number, extend: (key: Key) => void) {
    this.#clock = clock;
    this.#tickMs = ackWaitMs / TICKS_PER_ACK_WAIT;
    this.#limitMs = ackWaitMs * HOLD_LIMIT_ACK_WAITS;
    this.#extend = extend;
  }

  get size(): number {
    return this.#startedMs.size;
  }

  has(key: Key): boolean {
    return this.#startedMs.has(key);
  }

  add(key: Key): void {
    this.#startedMs.set(key, this.#clock.monotonicMs());
    this.#timer ??= this.#clock.after(this.#tickMs, this.#onTick);
  }

  remove(key: Key): void {
    this.#startedMs.delete(key);
  }

  keys(): IterableIterator<Key> {
    return this.#startedMs.keys();
  }

  /** Stops the timer; nothing is extended any more. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#startedMs.clear();
  }

  readonly #onTick = () => {
    this.#timer = undefined;
    if (this.#startedMs.size === 0) return;
    const nowMs = this.#clock.monotonicMs();
    for (const [key, startedMs] of this.#startedMs) {
      const heldMs = nowMs - startedMs;
      // A delivery may be up to two ticks old when it is first extended: still before its ack wait is over.
      if (heldMs >= this.#tickMs && heldMs + this.#tickMs <= this.#limitMs) this.#extend(key);
    }
    this.#timer = this.#clock.after(this.#tickMs, this.#onTick);
  };
}
