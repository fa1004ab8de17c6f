import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** All chance of one simulation: the same seed gives the same run. */
export class Random {
  readonly #generator: ReturnType<typeof xoroshiro128plus>;

  constructor(seed: number) {
    this.#generator = xoroshiro128plus(seed);
  }

  /** Uniform in [0, 1). */
  float(): number {
    return uniformFloat64(this.#generator);
  }

  /** Uniform in [from, to). */
  between(from: number, to: number): number {
    return from + this.float() * (to - from);
  }

  /** Integer, uniform in [from, to]. */
  integer(from: number, to: number): number {
    return Math.floor(this.between(from, to + 1));
  }

  chance(probability: number): boolean {
    return this.float() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.integer(0, items.length - 1)];
    if (item === undefined) throw new RangeError('nothing to pick from');
    return item;
  }
}
