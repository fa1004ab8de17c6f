import type { AggregateStatus, Condition, ConnectionValue, Latency, ObjectMeta, TunnelEntry } from './connection.ts';
import { formatLatency, parseLatency } from './latency.ts';

/**
 * The status of a whole Connection from its tunnels: Error if at least one is Error; else Connecting if at least one is
 * not Connected or there are none; else Connected with the mean of the latencies that exist.
 *
 * A pure function of the tunnels and of the Ready condition before: times come from the tunnels, never from a clock,
 * so any replica and any replay give the same bytes.
 */
export function aggregate(
  tunnels: readonly TunnelEntry[],
  before: Partial<AggregateStatus> | undefined,
  metadata: Pick<ObjectMeta, 'creationTimestamp'>,
): AggregateStatus {
  const value = aggregateValue(tunnels);
  const latency = value === 'Connected' ? meanLatency(tunnels) : undefined;
  return {
    value,
    ...(latency === undefined ? {} : { latency }),
    conditions: [readyCondition(value, tunnels, before, metadata)],
  };
}

export function aggregateValue(tunnels: readonly TunnelEntry[]): ConnectionValue {
  if (tunnels.some((tunnel) => tunnel.value === 'Error')) return 'Error';
  if (tunnels.length === 0 || tunnels.some((tunnel) => tunnel.value !== 'Connected')) return 'Connecting';
  return 'Connected';
}

/** Mean of the tunnels that have a latency (that reads as one, with its time), with the newest timestamp of theirs. */
export function meanLatency(tunnels: readonly TunnelEntry[]): Latency | undefined {
  let totalNs = 0;
  let count = 0;
  let newest = '';
  for (const { latency } of tunnels) {
    const ns = latency?.timestamp && latency.value ? parseLatency(latency.value) : undefined;
    if (latency === undefined || !ns) continue; // somebody's edit may have left half of it, or a zero
    totalNs += ns;
    count++;
    if (newest === '' || isLater(latency.timestamp, newest)) newest = latency.timestamp;
  }
  return count === 0 ? undefined : { value: formatLatency(totalNs / count), timestamp: newest };
}

export function sameAggregate(a: Partial<AggregateStatus> | undefined, b: AggregateStatus): boolean {
  return (
    a?.value === b.value &&
    a.latency?.value === b.latency?.value &&
    a.latency?.timestamp === b.latency?.timestamp &&
    b.conditions.every((condition) => {
      const other = a.conditions?.find(({ type }) => type === condition.type);
      return (
        other?.status === condition.status &&
        other.reason === condition.reason &&
        other.message === condition.message &&
        other.lastTransitionTime === condition.lastTransitionTime
      );
    })
  );
}

function readyCondition(
  value: ConnectionValue,
  tunnels: readonly TunnelEntry[],
  before: Partial<AggregateStatus> | undefined,
  metadata: Pick<ObjectMeta, 'creationTimestamp'>,
): Condition {
  const old = before?.conditions?.find(({ type }) => type === 'Ready');
  const status = value === 'Connected' ? 'True' : 'False';
  return {
    type: 'Ready',
    status,
    ...explain(value, tunnels),
    lastTransitionTime:
      old?.status === status ? old.lastTransitionTime : newestTransition(tunnels, metadata.creationTimestamp),
  };
}

/** Tells a single bad tunnel (its port or path) from all bad (gateway, node or underlay). */
function explain(
  value: ConnectionValue,
  tunnels: readonly TunnelEntry[],
): { readonly reason: string; readonly message: string } {
  const total = tunnels.length;
  if (total === 0) return { reason: 'NoTunnels', message: 'the Connection lists no tunnel' };
  if (value === 'Connected') {
    return {
      reason: 'AllTunnelsConnected',
      message: total === 1 ? 'the tunnel is Connected' : `all ${total} tunnels are Connected`,
    };
  }
  const faulty = tunnels.filter((tunnel) => tunnel.value !== 'Connected');
  const names = faulty.map(describe).join('; ');
  const errors = faulty.filter((tunnel) => tunnel.value === 'Error').length;
  if (errors === 0) {
    return { reason: 'TunnelsConnecting', message: `${faulty.length} of ${total} tunnels not yet Connected: ${names}` };
  }
  if (errors === total && total > 1) {
    return { reason: 'AllTunnelsFailed', message: `all ${total} tunnels failed (gateway, node or underlay): ${names}` };
  }
  const where = total > 1 ? ` (${errors === 1 ? 'its' : 'their'} port or path)` : '';
  return { reason: 'TunnelsFailed', message: `${errors} of ${total} tunnels failed${where}: ${names}` };
}

function describe(tunnel: TunnelEntry): string {
  const reason = tunnel.reason === undefined ? '' : ` ${tunnel.reason}`;
  const since = tunnel.lastTransitionTime === undefined ? '' : ` since ${tunnel.lastTransitionTime}`;
  return `${tunnel.interfaceID} ${tunnel.value ?? 'without a value'}${reason}${since}`;
}

const UNKNOWN_TIME = '1970-01-01T00:00:00Z';

function newestTransition(tunnels: readonly TunnelEntry[], fallback: string | undefined): string {
  let newest: string | undefined;
  for (const { lastTransitionTime } of tunnels) {
    if (lastTransitionTime !== undefined && (newest === undefined || isLater(lastTransitionTime, newest))) {
      newest = lastTransitionTime;
    }
  }
  return newest ?? fallback ?? UNKNOWN_TIME;
}

/** Order of RFC 3339 times in UTC with any number of fraction digits. */
function isLater(a: string, b: string): boolean {
  return a.replace(/Z$/, '') > b.replace(/Z$/, '');
}
