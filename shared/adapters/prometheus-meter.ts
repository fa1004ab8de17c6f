import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { METRICS, type MetricName, type MetricSpec } from '../domain/metrics.ts';
import type { Labels, Meter } from '../ports/telemetry.ts';

type Metric = Counter | Gauge | Histogram;

/**
 * The {@link Meter} on prom-client, with a registry of its own.
 *
 * A metric appears with its first sample: a process exports what it has measured, never a zero for what it does not do.
 */
export class PrometheusMeter implements Meter {
  readonly #registry = new Registry();
  readonly #metrics = new Map<MetricName, Metric>();

  readonly contentType = this.#registry.contentType;

  /** A negative or non-finite `by` is dropped: a counter never goes down. @throws TypeError if it is no counter */
  count(name: MetricName, labels: Labels = {}, by = 1): void {
    const counter = this.#metric(name, Counter);
    if (isSample(by)) counter.inc(labels, by);
  }

  /** A non-finite value is dropped; the last good one stays. @throws TypeError if it is no gauge */
  gauge(name: MetricName, labels: Labels, value: number): void {
    const gauge = this.#metric(name, Gauge);
    if (Number.isFinite(value)) gauge.set(labels, value);
  }

  /** @throws TypeError if it is no histogram */
  observe(name: MetricName, labels: Labels, value: number): void {
    const histogram = this.#metric(name, Histogram);
    if (isSample(value)) histogram.observe(labels, value);
  }

  remove(name: MetricName, labels: Labels): void {
    this.#metrics.get(name)?.remove(labels);
  }

  /** Everything in the Prometheus text format. */
  render(): Promise<string> {
    return this.#registry.metrics();
  }

  #metric<Wanted extends Metric>(name: MetricName, wanted: new (options: Options) => Wanted): Wanted {
    const metric = this.#metrics.get(name) ?? this.#register(name);
    if (metric instanceof wanted) return metric;
    throw new TypeError(`metric ${name} is a ${METRICS[name].type}, not a ${wanted.name.toLowerCase()}`);
  }

  #register(name: MetricName): Metric {
    const { type, help, labels, buckets }: MetricSpec = METRICS[name];
    const options: Options = {
      ...{ name, help, labelNames: labels, registers: [this.#registry] },
      ...(buckets && { buckets: [...buckets] }),
    };
    const metric = new KINDS[type](options);
    this.#metrics.set(name, metric);
    return metric;
  }
}

const KINDS = { counter: Counter, gauge: Gauge, histogram: Histogram } as const;

type Options = {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly registers: Registry[];
  readonly buckets?: number[];
};

function isSample(value: number): boolean {
  return Number.isFinite(value) && value >= 0;
}
