import { compareNanos, type UnixNanos } from './rfc3339-nanos.ts';

/** How a PING ended, or that it has not. */
export type PingState =
  | 'outstanding'
  | 'answered'
  /** No PONG in time. */
  | 'missed'
  /** A later PING was answered first. */
  | 'overtaken'
  /** The kernel refused it. */
  | 'refused';

export type SentPing = {
  readonly stamp: UnixNanos;
  readonly sentAtMs: number;
  /** Ends in an observation; additional probes end in silence unless they are answered. */
  readonly observed: boolean;
  state: PingState;
};

/**
 * The PINGs of one tunnel in the order of their stamps, the last `capacity` of them: those that ended are kept as
 * well, so that a duplicate is told from a late PONG and both from one that was never asked for.
 */
export class OutstandingPings {
  readonly #ring: (SentPing | undefined)[];
  /** Number of PINGs ever added; the ring holds those from `#added - capacity` on. */
  #added = 0;
  /** Every PING below this number has ended. */
  #ended = 0;

  constructor(capacity: number) {
    this.#ring = new Array<SentPing | undefined>(capacity).fill(undefined);
  }

  /** `stamp` must be later than all before. Returns the PING that had to give way, if it was still outstanding. */
  add(ping: SentPing): SentPing | undefined {
    const at = this.#added % this.#ring.length;
    const former = this.#ring[at];
    this.#ring[at] = ping;
    this.#added += 1;
    return former?.state === 'outstanding' ? former : undefined;
  }

  find(stamp: UnixNanos): SentPing | undefined {
    let low = Math.max(0, this.#added - this.#ring.length);
    let high = this.#added - 1;
    if (low > high) return undefined;
    const newest = this.#at(high); // the PING that is asked for most
    if (compareNanos(newest.stamp, stamp) === 0) return newest;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const ping = this.#at(middle);
      const order = compareNanos(ping.stamp, stamp);
      if (order === 0) return ping;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }

  oldestOutstanding(): SentPing | undefined {
    this.#ended = Math.max(this.#ended, this.#added - this.#ring.length);
    for (; this.#ended < this.#added; this.#ended++) {
      const ping = this.#at(this.#ended);
      if (ping.state === 'outstanding') return ping;
    }
    return undefined;
  }

  #at(number: number): SentPing {
    return this.#ring[number % this.#ring.length] as SentPing;
  }
}
