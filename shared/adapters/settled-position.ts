import type { LastSettled } from './nats-consumer-recovery.ts';

/**
 * Up to where one process has settled the events of its consumer. Events are settled in any order, so one that is in
 * work or awaits its retry holds the position back: what lies behind it may come twice, it may not be lost.
 */
export class SettledPosition {
  readonly #maxAckPending: number;
  readonly #inWork = new Set<number>();
  /** Awaiting a retry, the one given back last at the end. */
  readonly #givenBack = new Set<number>();
  #last: LastSettled | undefined;

  constructor(maxAckPending: number) {
    this.#maxAckPending = maxAckPending;
  }

  taken(streamSequence: number): void {
    this.#inWork.add(streamSequence);
    this.#givenBack.delete(streamSequence);
  }

  givenBack(streamSequence: number): void {
    this.#inWork.delete(streamSequence);
    this.#givenBack.add(streamSequence);
    // The server lets no more be unsettled: some were retried by other replicas, likely those that had the most time.
    const [oldest] = this.#givenBack;
    if (oldest !== undefined && this.#givenBack.size > this.#maxAckPending) this.#givenBack.delete(oldest);
  }

  settled(streamSequence: number, storedAtUnixMs: number): void {
    this.#inWork.delete(streamSequence);
    if (streamSequence > (this.#last?.streamSequence ?? 0)) this.#last = { streamSequence, storedAtUnixMs };
  }

  /** Everything up to here is settled, as far as this process knows; `undefined` where nothing is. */
  get current(): LastSettled | undefined {
    if (this.#last === undefined) return undefined;
    const lowest = Math.min(...this.#inWork, ...this.#givenBack);
    return { ...this.#last, streamSequence: Math.min(this.#last.streamSequence, lowest - 1) };
  }
}
