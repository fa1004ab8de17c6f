import { randomInt } from 'node:crypto';
import type { Clock } from '../ports/clock.ts';
import type { Settlement } from '../ports/event-bus.ts';

/**
 * Of consumers that keep order: a replica pulls from each with a priority of its own, so that as long as it lives the
 * next event comes to whoever had the last one, who need not read its state again. No replica is left out: the one
 * without an equal or better beside it gets the events.
 *
 * @see https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-42.md
 */
export const PRIORITY_GROUP = 'replicas';

/** The server's worst; from 0 up to here replicas draw theirs. */
const LAST = 9;
/** How long a replica that could not do what an event asks for leaves the next ones to others, if there are any. */
const STEP_BACK_MS = 10_000;
/** So many deliveries in a row that came after somebody else's show that another replica drew the same. */
const TURNS = 4;
/** More replicas than this do not take turns: they would be more than there are priorities. */
const MAX_BETWEEN = LAST;

/** With which priority a replica pulls from one consumer: the one it drew, or the last while it is in trouble. */
export class PullPriority {
  readonly #clock: Clock;
  /** Deliveries that pulls of before may bring, in the order that was before. */
  readonly #pulled: number;
  #own = randomInt(LAST);
  #lastSequence = Number.NaN;
  #turns = 0;
  #stepsBackUntilMs = Number.NEGATIVE_INFINITY;

  /** @param pulled - how many deliveries are pulled for at most */
  constructor(clock: Clock, pulled: number) {
    this.#clock = clock;
    this.#pulled = pulled;
  }

  get current(): number {
    return this.#clock.monotonicMs() < this.#stepsBackUntilMs ? LAST : this.#own;
  }

  /** By the consumer's own count. Who takes turns with another draws again, until the two differ. */
  delivered(sequence: number): void {
    const between = sequence - this.#lastSequence - 1;
    this.#lastSequence = sequence;
    const isTurn = between > 0 && between <= MAX_BETWEEN;
    this.#turns = isTurn ? this.#turns + 1 : Math.min(this.#turns + 1, 0);
    if (this.#turns < TURNS) return;
    this.#own = randomInt(LAST);
    this.#turns = -this.#pulled;
  }

  /** What is wrong may be wrong with this replica alone, and without this it would keep the partition from all others. */
  settled(settlement: Settlement): void {
    const isWell = settlement.kind === 'terminate' || (settlement.kind === 'ack' && !settlement.failed);
    if (!isWell) this.#stepsBackUntilMs = this.#clock.monotonicMs() + STEP_BACK_MS;
  }
}
