import { formatDuration } from './duration.ts';
import { compareOutages, type Outage, type OutageComparison, type ReplayStatistics } from './replay-statistics.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';
import { textTable } from './text-table.ts';

/** What a window comes to under several settings, side by side. */
export type WhatIfResult = { readonly label: string; readonly statistics: ReplayStatistics };

export type WhatIfReport = {
  readonly base: WhatIfResult;
  readonly variants: readonly (WhatIfResult & { readonly comparedToBase: OutageComparison })[];
};

export function compareResults([base, ...others]: readonly WhatIfResult[]): WhatIfReport {
  if (base === undefined) throw new Error('a comparison needs a base');
  const compare = (other: WhatIfResult) => compareOutages(base.statistics.outages, other.statistics.outages);
  return { base, variants: others.map((other) => ({ ...other, comparedToBase: compare(other) })) };
}

/** One line a setting, then the outages that only some of them report. */
export function formatWhatIf({ base, variants }: WhatIfReport): string[] {
  const rows = [
    HEAD,
    [base.label, ...columnsOf(base.statistics), ...NO_COMPARISON],
    ...variants.map(({ label, statistics, comparedToBase }) => [
      label,
      ...columnsOf(statistics),
      ...comparisonOf(comparedToBase),
    ]),
  ];
  return [...textTable(rows, 'all-but-first'), ...variants.flatMap(differencesOf)];
}

const HEAD = [
  ...['settings', 'outages', 'flaps', 'transitions', 'tunnel writes', 'aggregate writes'],
  ...['Connected', 'Connecting', 'Error', 'same', 'earlier', 'later', 'not at all', 'only here', 'mean shift'],
];
const NO_COMPARISON = ['', '', '', '', '', ''];

function columnsOf({ outages, flaps, transitions, writes, timeInStateMs }: ReplayStatistics): string[] {
  const totalMs = timeInStateMs.Connected + timeInStateMs.Connecting + timeInStateMs.Error;
  const share = (ms: number) => (totalMs === 0 ? '-' : `${((100 * ms) / totalMs).toFixed(3)} %`);
  return [
    ...[outages.length, flaps, transitions, writes.tunnels, writes.aggregates].map(String),
    ...[timeInStateMs.Connected, timeInStateMs.Connecting, timeInStateMs.Error].map(share),
  ];
}

function comparisonOf({ same, earlier, later, unreported, additional, meanShiftMs }: OutageComparison): string[] {
  return [...[same, earlier, later, unreported.length, additional.length].map(String), formatDuration(meanShiftMs)];
}

const MAX_LISTED = 20;

function differencesOf({ label, comparedToBase }: WhatIfReport['variants'][number]): string[] {
  const { unreported, additional } = comparedToBase;
  return [...listOf(`not reported with ${label}`, unreported), ...listOf(`reported only with ${label}`, additional)];
}

function listOf(title: string, outages: readonly Outage[]): string[] {
  if (outages.length === 0) return [];
  const rest = outages.length - MAX_LISTED;
  return [
    '',
    `${title}:`,
    ...outages.slice(0, MAX_LISTED).map(formatOutage),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
  ];
}

function formatOutage({ tunnel, reason, startUnixMs, endUnixMs }: Outage): string {
  const end = endUnixMs === undefined ? 'and lasts' : `for ${formatDuration(endUnixMs - startUnixMs)}`;
  return `  ${tunnel} ${reason} from ${formatRfc3339Ms(startUnixMs)} ${end}`;
}
