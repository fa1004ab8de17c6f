/**
 * When the PINGs of one tunnel are due: on a grid that never drifts, and between its points more often while that is
 * asked for. Who comes late sends once and goes on with the grid: a pause is not made up for by a burst.
 */
export class PingCadence {
  readonly #anchorMs: number;
  readonly #intervalMs: number;
  #regularAtMs: number;
  #extraAtMs = Number.POSITIVE_INFINITY;
  #extraEveryMs = 0;
  #lastAtMs = Number.NEGATIVE_INFINITY;

  constructor(firstDueMs: number, intervalMs: number) {
    this.#anchorMs = firstDueMs;
    this.#intervalMs = intervalMs;
    this.#regularAtMs = firstDueMs;
  }

  nextAtMs(): number {
    return Math.min(this.#regularAtMs, this.#extraAtMs);
  }

  /** Every `everyMs` after the last PING, at once if that was longer ago; without effect if the grid is as dense. */
  startExtra(nowMs: number, everyMs: number): void {
    if (everyMs >= this.#intervalMs) return;
    this.#extraEveryMs = everyMs;
    this.#extraAtMs = Math.min(this.#extraAtMs, Math.max(nowMs, this.#lastAtMs + everyMs));
  }

  stopExtra(): void {
    this.#extraAtMs = Number.POSITIVE_INFINITY;
  }

  /** What is due, which the caller then sends. */
  take(nowMs: number): 'regular' | 'extra' | undefined {
    const isExtraDue = nowMs >= this.#extraAtMs;
    const isRegularDue = nowMs >= this.#regularAtMs;
    if (!isExtraDue && !isRegularDue) return undefined;
    this.#lastAtMs = nowMs;
    if (this.#extraAtMs !== Number.POSITIVE_INFINITY) {
      const plannedMs = this.#extraAtMs + this.#extraEveryMs;
      this.#extraAtMs = isExtraDue && plannedMs > nowMs ? plannedMs : nowMs + this.#extraEveryMs;
    }
    if (!isRegularDue) return 'extra';
    const passed = Math.floor((nowMs - this.#anchorMs) / this.#intervalMs) + 1;
    this.#regularAtMs = this.#anchorMs + passed * this.#intervalMs;
    if (this.#regularAtMs <= nowMs) this.#regularAtMs += this.#intervalMs; // a rounded quotient
    return 'regular';
  }
}

/** Most groups of tunnels that are sent to at one instant; more would wake the process more often for nothing. */
const MAX_SLOTS = 8;

/** How far into its interval the tunnel at `index` of `count` has its grid. */
export function phaseMs(index: number, count: number, intervalMs: number): number {
  const slots = Math.min(count, MAX_SLOTS);
  return ((index % slots) * intervalMs) / slots;
}
