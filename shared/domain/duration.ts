/**
 * Durations as Go writes and reads them.
 *
 * @see https://pkg.go.dev/time#ParseDuration
 */

const UNIT_NS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n, // U+00B5 micro sign
  μs: 1_000n, // U+03BC Greek letter mu
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};
const TERM = /(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)/y;
const MAX_NS = 2n ** 63n - 1n;
const NS_PER_MS = 1e6;

/**
 * Reads `2s`, `1m30s`, `1.5h`, `350µs`, `-10ms`, `0`.
 *
 * @returns milliseconds (a fraction where needed), or `undefined` for what Go's `time.ParseDuration` refuses
 */
export function parseDuration(text: string): number | undefined {
  const unsigned = text.replace(/^[+-]/, '');
  const ns = unsigned === '0' ? 0n : sumOfTerms(unsigned);
  if (ns === undefined) return undefined;
  const ms = Number(ns) / NS_PER_MS;
  return text.startsWith('-') && ms !== 0 ? -ms : ms;
}

function sumOfTerms(text: string): bigint | undefined {
  if (text === '') return undefined;
  let totalNs = 0n;
  TERM.lastIndex = 0;
  while (TERM.lastIndex < text.length) {
    const [term, integer = '', fraction = '', unit = ''] = TERM.exec(text) ?? [];
    if (term === undefined || integer + fraction === '') return undefined;
    const unitNs = UNIT_NS[unit] as bigint; // TERM names exactly its keys
    totalNs += BigInt(integer) * unitNs + (BigInt(fraction) * unitNs) / 10n ** BigInt(fraction.length);
    if (totalNs > MAX_NS) return undefined;
  }
  return totalNs;
}

/**
 * Writes a duration as Go's `Duration.String` does, to the nanosecond: `2s`, `1m30s`, `1.5ms`, `350µs`, `0s`.
 *
 * @throws RangeError unless `durationMs` is finite
 */
export function formatDuration(durationMs: number): string {
  if (!Number.isFinite(durationMs)) throw new RangeError(`duration ${durationMs} ms: want a finite number`);
  const ns = Math.round(Math.abs(durationMs) * NS_PER_MS);
  const sign = durationMs < 0 && ns > 0 ? '-' : '';
  return sign + formatNs(ns);
}

function formatNs(ns: number): string {
  if (ns === 0) return '0s';
  if (ns < 1e3) return `${ns}ns`;
  if (ns < 1e6) return `${decimal(ns, 3)}µs`;
  if (ns < 1e9) return `${decimal(ns, 6)}ms`;
  const minutes = Math.floor(ns / 60e9);
  const seconds = `${decimal(ns % 60e9, 9)}s`;
  if (minutes === 0) return seconds;
  const hours = Math.floor(minutes / 60);
  return hours === 0 ? `${minutes}m${seconds}` : `${hours}h${minutes % 60}m${seconds}`;
}

/** `n / 10^digits`, exactly, without trailing zeros. */
function decimal(n: number, digits: number): string {
  const scale = 10 ** digits;
  const fraction = (n % scale).toString().padStart(digits, '0').replace(/0+$/, '');
  const integer = Math.floor(n / scale).toString();
  return fraction === '' ? integer : `${integer}.${fraction}`;
}
