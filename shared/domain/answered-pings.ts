import type { UnixNanos } from './rfc3339-nanos.ts';

const SLOTS = 256;

/** Remembers the peer's last PINGs, so that a datagram that the network doubled gets one answer. */
export class AnsweredPings {
  readonly #seconds = new Float64Array(SLOTS).fill(Number.NaN);
  readonly #nanos = new Float64Array(SLOTS);

  /** Whether `stamp` is new; from then on it is not, until a later one takes its place. */
  isFirst({ seconds, nanos }: UnixNanos): boolean {
    const slot = Math.imul(nanos ^ seconds, 0x9e3779b1) >>> 24;
    if (this.#seconds[slot] === seconds && this.#nanos[slot] === nanos) return false;
    this.#seconds[slot] = seconds;
    this.#nanos[slot] = nanos;
    return true;
  }
}
