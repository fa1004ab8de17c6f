import { randomInt } from 'node:crypto';
import type { Clock } from '../ports/clock.ts';
import type { Settlement } from '../ports/event-bus.ts';

/**
 * Of consumers that keep order: a replica pulls from each with a priority of its own, so that as long as it lives the
 * next event comes to whoever had the last one, who need not read its state again. No replica is left out: whoever has
 * no equal or better beside him gets the events.
 *
 * @see https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-42.md
 */
export const PRIORITY_GROUP = 'replicas';

/** The server's worst; from 0 up to here replicas draw theirs. */
const LAST = 9;
/** How long a replica that could not do what an event asks for leaves the next ones to others, if there are any. */
const STEP_BACK_MS = 10_000;

/** With which priority a replica pulls from one consumer: the one it drew, or the last while it is in trouble. */
export class PullPriority {
  readonly #clock: Clock;
  readonly #own = randomInt(LAST);
  #stepsBackUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get current(): number {
    return this.#clock.monotonicMs() < this.#stepsBackUntilMs ? LAST : this.#own;
  }

  /** What is wrong may be wrong with this replica alone, and without this it would keep the partition from all others. */
  settled(settlement: Settlement): void {
    const isWell = settlement.kind === 'terminate' || (settlement.kind === 'ack' && !settlement.failed);
    if (!isWell) this.#stepsBackUntilMs = this.#clock.monotonicMs() + STEP_BACK_MS;
  }
}
