const MINIMUM_OF = 8;
const LOSS_WINDOW = 100;

/** Of one tunnel; absent values were never measured. */
export type RttStatistics = {
  readonly lastRttNs?: number;
  /** Least of the last 8. */
  readonly minRttNs?: number;
  /** Of the last 100. */
  readonly meanRttNs?: number;
  /** Standard deviation of the last 100. */
  readonly deviationRttNs?: number;
  /** RFC 3550, 6.4.1, of the differences between consecutive round trips. */
  readonly jitterNs?: number;
  /** Share of the last 100 PINGs that were lost, 0 to 1. */
  readonly lossRatio?: number;
};

/** What the samples of one tunnel say, in constant memory. */
export class RttWindow {
  readonly #samples = new Float64Array(LOSS_WINDOW);
  #count = 0;
  #jitterNs = 0;
  readonly #lost = new Uint8Array(LOSS_WINDOW);
  #ended = 0;
  #losses = 0;

  /** A round trip; it counts as a PING that was not lost as well. */
  add(rttNs: number): void {
    if (this.#count > 0) this.#jitterNs += (Math.abs(rttNs - this.#sample(1)) - this.#jitterNs) / 16;
    this.#samples[this.#count++ % LOSS_WINDOW] = rttNs;
    this.end(false);
  }

  /** A PING ended without a round trip that could be measured. */
  end(lost: boolean): void {
    const at = this.#ended++ % LOSS_WINDOW;
    this.#losses += Number(lost) - (this.#lost[at] as number);
    this.#lost[at] = Number(lost);
  }

  /** Least of the last 8, `undefined` before the first. */
  minRttNs(): number | undefined {
    if (this.#count === 0) return undefined;
    let least = this.#sample(1);
    for (let back = 2; back <= Math.min(MINIMUM_OF, this.#count); back++) least = Math.min(least, this.#sample(back));
    return least;
  }

  read(): RttStatistics {
    const loss = this.#ended === 0 ? {} : { lossRatio: this.#losses / Math.min(this.#ended, LOSS_WINDOW) };
    const minRttNs = this.minRttNs();
    if (minRttNs === undefined) return loss;
    const size = Math.min(this.#count, LOSS_WINDOW);
    let sum = 0;
    for (let i = 0; i < size; i++) sum += this.#samples[i] as number;
    const meanRttNs = sum / size;
    let squares = 0;
    for (let i = 0; i < size; i++) squares += ((this.#samples[i] as number) - meanRttNs) ** 2;
    return {
      ...{ lastRttNs: this.#sample(1), minRttNs, meanRttNs, deviationRttNs: Math.sqrt(squares / size) },
      ...{ jitterNs: this.#jitterNs, ...loss },
    };
  }

  /** The sample `back` places from the end, 1 being the last. */
  #sample(back: number): number {
    return this.#samples[(this.#count - back) % LOSS_WINDOW] as number;
  }
}
