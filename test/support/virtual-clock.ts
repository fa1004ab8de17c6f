import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Timer } from '../../shared/ports/clock.ts';

type Task = { readonly dueMs: number; readonly order: number; run: (() => void) | undefined };

/**
 * A clock that only its test moves. Timers run in the order of their due times, those of one instant in the order
 * in which they were set; between two of them everything that promises have to do is done.
 */
export class VirtualClock implements Clock {
  #nowMs = 0;
  #unixOffsetMs: number;
  #order = 0;
  /** Binary heap by due time, then order; cancelled tasks stay in it until they are due. */
  readonly #heap: Task[] = [];

  /** @param unixMs - the wall clock at the start. @defaultValue 2026-01-01T00:00:00Z */
  constructor(unixMs: number = Date.UTC(2026, 0, 1)) {
    this.#unixOffsetMs = unixMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  unixMs(): number {
    return Math.floor(this.#nowMs + this.#unixOffsetMs);
  }

  /** Steps the wall clock; durations and timers do not notice. */
  stepUnix(deltaMs: number): void {
    this.#unixOffsetMs += deltaMs;
  }

  after(delayMs: number, task: () => void): Timer {
    const entry: Task = { dueMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, run: task };
    this.#push(entry);
    return {
      cancel: () => {
        entry.run = undefined;
      },
    };
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        timer.cancel();
        reject(signal?.reason);
      };
      const timer = this.after(delayMs, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Lets all promise callbacks run; time stands still. */
  async settle(): Promise<void> {
    await nextTurn(); // all microtasks are done before the event loop turns
  }

  /** Moves time on by `durationMs` and runs what falls due on the way. */
  async advance(durationMs: number): Promise<void> {
    await this.#runTo(this.#nowMs + durationMs, () => false);
  }

  /**
   * Moves time on, timer by timer, until `condition` holds.
   *
   * @throws Error if it still does not after `limitMs`.
   */
  async advanceUntil(condition: () => boolean, limitMs = 3_600_000): Promise<void> {
    await this.#runTo(this.#nowMs + limitMs, condition);
    if (!condition()) throw new Error(`the condition does not hold after ${limitMs} ms of virtual time`);
  }

  async #runTo(endMs: number, isDone: () => boolean): Promise<void> {
    await this.settle();
    while (!isDone()) {
      const next = this.#heap[0];
      if (next === undefined || next.dueMs > endMs) {
        this.#nowMs = endMs;
        return;
      }
      this.#pop();
      if (next.run === undefined) continue;
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.run();
      await this.settle();
    }
  }

  #push(task: Task): void {
    const heap = this.#heap;
    let at = heap.push(task) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #pop(): void {
    const heap = this.#heap;
    this.#swap(0, heap.length - 1);
    heap.pop();
    let at = 0;
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && this.#isBefore(child, least)) least = child;
      }
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const [left, right] = [this.#heap[a] as Task, this.#heap[b] as Task];
    return left.dueMs < right.dueMs || (left.dueMs === right.dueMs && left.order < right.order);
  }

  #swap(a: number, b: number): void {
    const [left, right] = [this.#heap[a] as Task, this.#heap[b] as Task];
    this.#heap[a] = right;
    this.#heap[b] = left;
  }
}
