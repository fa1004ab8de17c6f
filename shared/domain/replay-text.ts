import { type AggregateStatus, connectionKey, type TunnelEntry } from './connection.ts';
import type { ConnectionView, FinalConnection, ReplayStep, ReplaySummary, SkippedEvents } from './replay-step.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';

/** A replay in words. The same steps give the same text. */

export function formatStep(step: ReplayStep): string {
  const { sequence, storedAtUnixMs, connection, interfaceId, function: name, skipped, shows } = step;
  const about = [
    connection === undefined ? '' : connectionKey(connection),
    interfaceId ?? (name === 'connection-aggregate' ? 'aggregate' : ''),
  ];
  const words = [
    formatRfc3339Ms(storedAtUnixMs),
    `#${sequence}`,
    ...about,
    describe(step),
    skipped === undefined ? '' : `(${formatSkipped(skipped)} before)`,
    shows === undefined ? '' : `=> ${formatView(shows)}`,
  ];
  return words.filter(Boolean).join('  ');
}

function describe({ kind, reason, message, before, after }: ReplayStep): string {
  if (kind !== 'written') return [kind, reason, message].filter(Boolean).join(' ');
  const [old, now] = [before, after] as readonly (Partial<TunnelEntry & AggregateStatus> | undefined)[];
  const change = old?.value === now?.value ? now?.value : `${old?.value ?? 'none'} -> ${now?.value}`;
  const ready = now?.conditions?.find(({ type }) => type === 'Ready');
  const why = now?.reason ?? ready?.reason;
  return [change, now?.latency?.value, why && `[${why}]`, now?.message ?? ready?.message, `(${reason})`]
    .filter(Boolean)
    .join(' ');
}

function formatSkipped({ throttled, stale, orphan }: SkippedEvents): string {
  const counts = [
    [throttled, 'throttled'],
    [stale, 'stale'],
    [orphan, 'orphan'],
  ] as const;
  return counts
    .filter(([count]) => count > 0)
    .map(([count, name]) => `${count} ${name}`)
    .join(', ');
}

export function formatView({ value, latency, tunnels }: ConnectionView): string {
  const total = tunnels.Connected + tunnels.Connecting + tunnels.Error;
  return `${[value ?? 'no value', latency].filter(Boolean).join(' ')}, ${tunnels.Connected}/${total} Connected`;
}

/** Ends a timeline: what was read, what came of it, and the Connections as they are then. */
export function formatSummary(summary: ReplaySummary): string[] {
  const { events, first, last, outcomes, writes, missing, assumed, connections } = summary;
  const place = (at: typeof first) => (at === undefined ? '' : `#${at.sequence} ${formatRfc3339Ms(at.storedAtUnixMs)}`);
  return [
    `${events} events${first === undefined ? '' : `, ${place(first)} to ${place(last)}`}`,
    `tunnel-status: ${Object.entries(outcomes)
      .map(([name, count]) => `${count} ${name}`)
      .join(', ')}`,
    `API writes: ${writes.tunnels} of tunnels, ${writes.aggregates} of aggregates`,
    ...(missing === 0 ? [] : [`missing: ${missing} observations that gateways made are not in the window`]),
    ...(assumed.length === 0 ? [] : [`listing assumed, since the window starts after it: ${assumed.join(', ')}`]),
    ...connections.flatMap(formatConnection),
  ];
}

function formatConnection({ namespace, name, uid, status }: FinalConnection): string[] {
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const head = [`${namespace}/${name}`, `(${uid})`, status.value ?? 'no value', status.latency?.value, ready?.message];
  return [head.filter(Boolean).join(' '), ...(status.tunnels ?? []).map((tunnel) => `  ${formatTunnel(tunnel)}`)];
}

export function formatTunnel({
  interfaceID,
  value,
  latency,
  reason,
  message,
  lastTransitionTime,
}: TunnelEntry): string {
  const since = lastTransitionTime === undefined ? '' : `since ${lastTransitionTime}`;
  return [interfaceID, value, latency?.value, reason && `[${reason}]`, message, since].filter(Boolean).join(' ');
}
