import { formatDuration, parseDuration } from './duration.ts';

const NS_PER_US = 1_000;
const NS_PER_MS = 1_000_000;

/**
 * A round trip as the status shows it: a Go duration to the microsecond, `1.234ms`, `350µs`, `1.5s`.
 * What was measured never reads as zero: less than a microsecond is `1µs`.
 *
 * @throws RangeError unless `ns` is finite and positive: what was not measured has no latency at all
 */
export function formatLatency(ns: number): string {
  if (!Number.isFinite(ns) || ns <= 0) throw new RangeError(`latency ${ns} ns: want a finite number above 0`);
  const us = Math.max(1, Math.round(ns / NS_PER_US));
  return formatDuration((us * NS_PER_US) / NS_PER_MS);
}

/** Nanoseconds of a latency in the form of the status, or `undefined` if it is not a duration of 0 or more. */
export function parseLatency(text: string): number | undefined {
  const ms = parseDuration(text);
  return ms === undefined || ms < 0 ? undefined : Math.round(ms * NS_PER_MS);
}
