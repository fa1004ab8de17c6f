/** Before the first round trip is known. @see https://www.rfc-editor.org/rfc/rfc6298#section-2 */
export const INITIAL_PATIENCE_MS = 1_000;

/**
 * How long a PING waits for its PONG before it is a miss: RFC 6298's retransmission timer, at least the interval and
 * at most the window after which the tunnel is Error anyway. PONGs that come too late teach it as well, so that a
 * tunnel that became slow is not called lossy for ever.
 */
export class AnswerPatience {
  readonly #minMs: number;
  readonly #maxMs: number;
  #smoothedMs: number | undefined;
  #variationMs = 0;

  constructor(intervalMs: number, windowMs: number) {
    this.#minMs = intervalMs;
    this.#maxMs = windowMs;
  }

  get ms(): number {
    const wantMs = this.#smoothedMs === undefined ? INITIAL_PATIENCE_MS : this.#smoothedMs + 4 * this.#variationMs;
    return Math.min(this.#maxMs, Math.max(this.#minMs, wantMs));
  }

  learn(rttMs: number): void {
    if (this.#smoothedMs === undefined) {
      this.#smoothedMs = rttMs;
      this.#variationMs = rttMs / 2;
    } else {
      this.#variationMs += (Math.abs(this.#smoothedMs - rttMs) - this.#variationMs) / 4;
      this.#smoothedMs += (rttMs - this.#smoothedMs) / 8;
    }
  }
}
