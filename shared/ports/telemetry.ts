import type { MetricName } from '../domain/metrics.ts';

export type Labels = Readonly<Record<string, string>>;

/** Metrics by the names of the catalog; labels come from configuration only, never from a packet or an event. */
export interface Meter {
  /** Adds to a counter. */
  count(name: MetricName, labels?: Labels, by?: number): void;
  /** Sets a gauge. */
  gauge(name: MetricName, labels: Labels, value: number): void;
  /** Adds a sample to a histogram; one that is not a finite number ≥ 0 is dropped. */
  observe(name: MetricName, labels: Labels, value: number): void;
  /** Drops the series of a thing that is gone. */
  remove(name: MetricName, labels: Labels): void;
}

/** pino's shape: constant message, variable fields. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}
