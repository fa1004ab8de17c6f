import type { MetricName } from '../../shared/domain/metrics.ts';
import type { Labels, Meter } from '../../shared/ports/telemetry.ts';

/** Keeps what is counted, and lets everything else go by. */
export class CountingMeter implements Meter {
  readonly #counts = new Map<string, number>();

  count(name: MetricName, labels: Labels = {}, by = 1): void {
    const key = [name, ...Object.values(labels)].join(' ');
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + by);
  }

  /** @param labels - the values of all of its labels, in the order in which they are given where it is counted */
  of(name: MetricName, ...labels: readonly string[]): number {
    return this.#counts.get([name, ...labels].join(' ')) ?? 0;
  }

  gauge(): void {}
  observe(): void {}
  remove(): void {}
}
