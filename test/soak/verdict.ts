/**
 * Whether what was written is what was observed: the observations of a run against the API server's audit log and the
 * decisions. Pure: {@link judgeRun} over three lists.
 */
import { connectionKey } from '../../shared/domain/connection.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import type { TunnelEvent } from '../../shared/domain/observation.ts';
import type { ConnectionWrite } from '../support/audit-log.ts';

/** An event of OBSERVATIONS, in the order of the stream. */
export type StoredEvent = { readonly id: string; readonly event: TunnelEvent };

export type RunVerdict = {
  /** Changes of value that the observations called for. */
  readonly transitions: number;
  /** Of these, written. */
  readonly written: number;
  /** Of these, not written because the API server refused or did not answer, as a decision says. */
  readonly superseded: number;
  /** Of these, neither: each as a line. */
  readonly lost: readonly string[];
  /** Writes of an older observation after one of a newer, each as a line. */
  readonly stale: readonly string[];
  /** Writes of a tunnel's entry that are judged here. */
  readonly writes: number;
};

/** Events of one tunnel in a row that hold the same value; the next phase begins with another. */
type Phase = { readonly value: string; readonly events: { readonly id: string; readonly observedAt: string }[] };

type Entry = NonNullable<NonNullable<ConnectionWrite['status']>['tunnels']>[number];

export function judgeRun(
  observations: readonly StoredEvent[],
  writes: readonly ConnectionWrite[],
  decisions: readonly Decision[],
): RunVerdict {
  const failed = new Set(
    decisions
      .filter(({ function: name, outcome }) => name === 'tunnel-status' && outcome === 'failed')
      .map(({ eventId }) => eventId),
  );
  const entries = entriesByTunnel(writes);
  const total = { transitions: 0, written: 0, superseded: 0, writes: 0 };
  const lost: string[] = [];
  const stale: string[] = [];
  for (const [tunnel, phases] of phasesByTunnel(observations)) {
    const written = entries.get(tunnel) ?? [];
    total.writes += written.length;
    stale.push(...staleWrites(tunnel, phases, written));
    let shown: string | undefined;
    let isBehind = false; // the last change is not shown, as the API server did not take it
    for (const { value, events } of phases) {
      total.transitions += 1;
      const isWritten = events.some(({ observedAt }) =>
        written.some((entry) => entry.value === value && entry.lastTransitionTime === observedAt),
      );
      // Back to what is shown still: nothing is left to write.
      const isUndone: boolean = isBehind && value === shown;
      const isSuperseded: boolean = !isWritten && (isUndone || events.some(({ id }) => failed.has(id)));
      if (isWritten) shown = value;
      isBehind = isSuperseded && !isUndone;
      if (isWritten) total.written += 1;
      else if (isSuperseded) total.superseded += 1;
      else lost.push(`${tunnel}: ${value} of ${events[0]?.observedAt} (${events[0]?.id}, ${events.length} in a row)`);
    }
  }
  return { ...total, lost, stale };
}

/** By the order of the stream, what is older by epoch and sequence left out, as tunnel-status should have it. */
function phasesByTunnel(observations: readonly StoredEvent[]): Map<string, Phase[]> {
  const phases = new Map<string, Phase[]>();
  const newest = new Map<string, { readonly epoch: number; readonly sequence: number }>();
  for (const { id, event } of observations) {
    if (event.kind === 'listed' || event.kind === 'unlisted') continue;
    const tunnel = tunnelKey(event.namespace, event.connection, event.interfaceId);
    const sequence = 'sequence' in event ? event.sequence : 0;
    const seen = newest.get(tunnel) ?? { epoch: 0, sequence: 0 };
    const isSilent = event.kind === 'silent';
    const isOlder = event.gatewayEpoch < seen.epoch || (event.gatewayEpoch === seen.epoch && sequence <= seen.sequence);
    if (isSilent ? event.gatewayEpoch < seen.epoch : isOlder) continue;
    if (!isSilent) newest.set(tunnel, { epoch: event.gatewayEpoch, sequence });
    const value = isSilent ? 'Error' : event.value;
    if (value === 'Connecting') continue; // never overwrites a value, and is there from the start
    const before = phases.get(tunnel) ?? [];
    phases.set(tunnel, before);
    const phase = before.at(-1)?.value === value ? before.at(-1) : { value, events: [] };
    if (phase === undefined) continue;
    if (phase !== before.at(-1)) before.push(phase);
    phase.events.push({ id, observedAt: event.observedAt });
  }
  return phases;
}

function entriesByTunnel(writes: readonly ConnectionWrite[]): Map<string, Entry[]> {
  const entries = new Map<string, Entry[]>();
  for (const { connection, code, status } of writes) {
    if (code !== 200) continue;
    for (const entry of status?.tunnels ?? []) {
      const tunnel = `${connection}/${entry.interfaceID}`;
      entries.set(tunnel, [...(entries.get(tunnel) ?? []), entry]);
    }
  }
  return entries;
}

/** A write shows which phase it is of; phases may only go on. */
function staleWrites(tunnel: string, phases: readonly Phase[], written: readonly Entry[]): string[] {
  const phaseOf = new Map(
    phases.flatMap(({ value, events }, index) =>
      events.map(({ observedAt }) => [`${value} ${observedAt}`, index] as const),
    ),
  );
  let newest = -1;
  return written.flatMap((entry) => {
    const index = phaseOf.get(`${entry.value} ${entry.latency?.timestamp ?? entry.lastTransitionTime}`);
    if (index === undefined) return [];
    const isStale = index < newest;
    newest = Math.max(newest, index);
    return isStale ? [`${tunnel}: ${entry.value} of ${entry.lastTransitionTime} was written after a newer value`] : [];
  });
}

function tunnelKey(namespace: string, name: string, interfaceId: string): string {
  return `${connectionKey({ namespace, name })}/${interfaceId}`;
}
