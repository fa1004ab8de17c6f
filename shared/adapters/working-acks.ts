import type { Clock, Timer } from '../ports/clock.ts';

/** How long a handler may keep one delivery, in ack waits; then it counts as stuck and somebody else gets the message. */
const HOLD_LIMIT_ACK_WAITS = 6;
const TICKS_PER_ACK_WAIT = 3;

/**
 * What is in work, by stream sequence. Says "still working" for deliveries whose handler takes long, so that a slow one
 * is not handled twice, up to a bound, so that a stuck one is. One timer for all, which runs only while something is in work.
 */
export class WorkingAcks {
  readonly #clock: Clock;
  readonly #tickMs: number;
  readonly #limitMs: number;
  readonly #inWork = new Map<number, { readonly startedMs: number; readonly extend: () => void }>();
  #timer: Timer | undefined;

  constructor(clock: Clock, ackWaitMs: number) {
    this.#clock = clock;
    this.#tickMs = ackWaitMs / TICKS_PER_ACK_WAIT;
    this.#limitMs = ackWaitMs * HOLD_LIMIT_ACK_WAITS;
  }

  get size(): number {
    return this.#inWork.size;
  }

  has(streamSequence: number): boolean {
    return this.#inWork.has(streamSequence);
  }

  /** @param extend - gives the delivery another ack wait from now */
  add(streamSequence: number, extend: () => void): void {
    this.#inWork.set(streamSequence, { startedMs: this.#clock.monotonicMs(), extend });
    this.#timer ??= this.#clock.after(this.#tickMs, this.#onTick);
  }

  remove(streamSequence: number): void {
    this.#inWork.delete(streamSequence);
  }

  /** Stops the timer; nothing is extended any more. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#inWork.clear();
  }

  readonly #onTick = () => {
    this.#timer = undefined;
    if (this.#inWork.size === 0) return;
    const nowMs = this.#clock.monotonicMs();
    for (const { startedMs, extend } of this.#inWork.values()) {
      const heldMs = nowMs - startedMs;
      // A delivery may be up to two ticks old when it is first extended: still before its ack wait is over.
      if (heldMs >= this.#tickMs && heldMs + this.#tickMs <= this.#limitMs) extend();
    }
    this.#timer = this.#clock.after(this.#tickMs, this.#onTick);
  };
}
