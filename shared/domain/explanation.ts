import { type Connection, connectionKey, type TunnelEntry } from './connection.ts';
import type { EventPlace } from './event-place.ts';
import { foreignOwners, ownersOf } from './field-owners.ts';
import type { GatewaySuspicion } from './gateway-watch.ts';
import type { Observation } from './observation.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { FinalConnection } from './replay-step.ts';
import { formatTunnel } from './replay-text.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';
import { formatEvent, type TunnelTrails } from './tunnel-trail.ts';

/** Why a Connection is as it is: for each tunnel the events that made it so, who owns what, what looks wrong. */
export type Explanation = {
  readonly connection: string;
  readonly asOf?: EventPlace;
  readonly value?: string;
  readonly latency?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly since?: string;
  readonly tunnels: readonly TunnelExplanation[];
  /** Absent where it is not known: the API tells it of now only. */
  readonly owners?: readonly string[];
  readonly suspicious: readonly string[];
};

export type TunnelExplanation = {
  readonly tunnel: TunnelEntry;
  /** The writes that changed its value, newest last. */
  readonly changes: readonly string[];
  /** Its last events, newest last. */
  readonly events: readonly string[];
  readonly isListingAssumed: boolean;
};

const MAX_CHANGES = 5;
/** A gateway that said nothing for this long before the end of the window is silent, or the window ends in an outage. */
const SILENT_MS = 30_000;

export type ExplanationParts = {
  readonly trails: TunnelTrails;
  readonly suspicions: readonly GatewaySuspicion[];
  readonly asOf: EventPlace | undefined;
  /** As the API shows it; only worth comparing if it is about the same time. */
  readonly live: Connection | undefined;
  readonly missing: number;
};

export function explainConnection(replayed: FinalConnection, parts: ExplanationParts): Explanation {
  const { trails, asOf, live } = parts;
  const name = connectionKey(replayed);
  const { status } = replayed;
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  return {
    connection: name,
    ...(asOf && { asOf }),
    ...(status.value && { value: status.value }),
    ...(status.latency && { latency: status.latency.value }),
    ...(ready && { reason: ready.reason, message: ready.message, since: ready.lastTransitionTime }),
    tunnels: (status.tunnels ?? []).map((tunnel) => {
      const trail = trails.get(`${name} ${tunnel.interfaceID}`);
      const changes = trail?.entries.filter(({ entry }, at, all) => all[at - 1]?.entry.value !== entry.value) ?? [];
      return {
        tunnel,
        changes: changes.slice(-MAX_CHANGES).map(({ entry, sequence, at }) => {
          return `#${sequence} ${formatRfc3339Ms(at)} became ${formatTunnel(entry)}`;
        }),
        events: trail?.events.map(formatEvent) ?? [],
        isListingAssumed: trail?.isAssumed ?? false,
      };
    }),
    ...(live && { owners: describeOwners(live) }),
    suspicious: suspiciousThings(name, replayed, parts),
  };
}

function describeOwners({ metadata, status }: Connection): string[] {
  const rows = [undefined, ...(status?.tunnels ?? []).map(({ interfaceID }) => interfaceID)];
  return rows.flatMap((interfaceId) =>
    ownersOf(metadata.managedFields, interfaceId).map(
      ({ manager, operation, fields }) =>
        `${interfaceId ?? 'aggregate'}: ${manager} (${operation}) owns ${fields.join(', ')}`,
    ),
  );
}

function suspiciousThings(name: string, replayed: FinalConnection, parts: ExplanationParts): string[] {
  const { suspicions, live, missing } = parts;
  return [
    ...suspicions.map(
      ({ kind, sequence, at, message }) => `${kind} at #${sequence} ${formatRfc3339Ms(at)}: ${message}`,
    ),
    ...(missing > 0 ? [`gap: ${missing} observations that the gateway made are not in the stream`] : []),
    ...silentTunnels(name, replayed, parts),
    ...(live === undefined ? [] : foreignThings(live)),
    ...(live === undefined ? [] : orphans(replayed, live)),
  ];
}

function silentTunnels(name: string, { status }: FinalConnection, { trails, asOf }: ExplanationParts): string[] {
  return (status.tunnels ?? []).flatMap(({ interfaceID, reason }) => {
    if (reason === 'GatewaySilent')
      return [`gateway silent: ${interfaceID} is Error because nothing was heard of the gateway`];
    const last = trails.get(`${name} ${interfaceID}`)?.events.findLast(isObservation);
    const ageMs = asOf === undefined || last === undefined ? 0 : asOf.storedAtUnixMs - last.storedAtUnixMs;
    return ageMs < SILENT_MS
      ? []
      : [`no observation of ${interfaceID} for ${Math.round(ageMs / 1e3)} s before the end`];
  });
}

function isObservation({ event }: RecordedMessage): boolean {
  return typeof (event?.data as Partial<Observation> | undefined)?.sequence === 'number';
}

function foreignThings({ metadata, status }: Connection): string[] {
  const rows = [undefined, ...(status?.tunnels ?? []).map(({ interfaceID }) => interfaceID)];
  return rows.flatMap((interfaceId) =>
    foreignOwners(metadata.managedFields, interfaceId).map(
      (owner) => `foreign manager of ${interfaceId ?? 'the aggregate'}: ${owner}`,
    ),
  );
}

function orphans(replayed: FinalConnection, live: Connection): string[] {
  const listed = new Set((replayed.status.tunnels ?? []).map(({ interfaceID }) => interfaceID));
  const extra = (live.status?.tunnels ?? []).filter(({ interfaceID }) => !listed.has(interfaceID));
  return extra.map((entry) => `orphan entry: ${formatTunnel(entry)}; no event lists it`);
}

export function formatExplanation(explanation: Explanation): string[] {
  const { connection, asOf, value, latency, reason, message, since, tunnels, owners, suspicious } = explanation;
  const head = [connection, value ?? 'no value', latency, reason && `[${reason}]`, message, since && `since ${since}`];
  const when = asOf === undefined ? [] : [`as of #${asOf.sequence} ${formatRfc3339Ms(asOf.storedAtUnixMs)}`];
  return [
    head.filter(Boolean).join(' '),
    ...when,
    ...tunnels.flatMap(({ tunnel, changes, events, isListingAssumed }) => [
      '',
      formatTunnel(tunnel),
      ...(isListingAssumed ? ['  its listing is older than the window'] : []),
      ...changes.map((line) => `  ${line}`),
      ...(events.length === 0 ? [] : ['  last events:', ...events.map((line) => `    ${line}`)]),
    ]),
    ...(owners === undefined ? ['', 'fields: not known as of then'] : section('fields', owners)),
    ...section('suspicious', suspicious),
  ];
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? ['', `${title}: nothing`] : ['', `${title}:`, ...lines.map((line) => `  ${line}`)];
}
