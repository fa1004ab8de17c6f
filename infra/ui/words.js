/** @import { PageBin, PageConnection } from '../../shared/domain/page-patch.ts' */

/** A shape beside the colour: nobody has to tell red from green. */
export const MARKS = /** @type {const} */ ({ Connected: '●', Connecting: '◐', Error: '✕' });

/** @param {number | null | undefined} us */
export function latencyWords(us) {
  if (us === null || us === undefined) return '–';
  if (us < 1000) return `${us} µs`;
  return us < 100_000 ? `${(us / 1000).toFixed(2)} ms` : `${Math.round(us / 1000)} ms`;
}

/** @param {number} unixMs */
export function timeWords(unixMs) {
  return new Date(unixMs).toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hour12: false,
  });
}

/**
 * Instants of a message, as the people who read it tell the time.
 * @param {string} message
 */
export function localTimes(message) {
  return message.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (instant) => timeWords(Date.parse(instant)));
}

/**
 * Share of the PINGs that were lost, in percent.
 * @param {readonly PageBin[]} bins
 * @returns {number | undefined} nothing where there were none
 */
export function lossPercent(bins) {
  let pings = 0;
  let lost = 0;
  for (const [, ended, without] of bins) {
    pings += ended;
    lost += without;
  }
  return pings === 0 ? undefined : (100 * lost) / pings;
}

/** @param {number | undefined} percent */
export function lossWords(percent) {
  if (percent === undefined) return '–';
  return `${percent > 0 && percent < 1 ? '<1' : Math.round(percent)} %`;
}

/** @param {Iterable<Pick<PageConnection, 'value'>>} connections */
export function summaryWords(connections) {
  const counts = { Connected: 0, Connecting: 0, Error: 0, none: 0 };
  let total = 0;
  for (const { value } of connections) {
    counts[value ?? 'none'] += 1;
    total += 1;
  }
  const parts = Object.entries(counts).flatMap(([value, count]) =>
    count === 0 ? [] : [`${count} ${value === 'none' ? 'without a value' : value}`],
  );
  return total === 0 ? '' : `${total} Connection${total === 1 ? '' : 's'}: ${parts.join(', ')}`;
}
