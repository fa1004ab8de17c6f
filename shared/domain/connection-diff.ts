import { aggregateValue } from './aggregate.ts';
import { type Connection, connectionKey, type TunnelEntry } from './connection.ts';
import { type Shift, WINDOW_START } from './decision-diff.ts';
import { foreignOwners } from './field-owners.ts';
import type { Difference } from './replay-difference.ts';
import type { FinalConnection } from './replay-step.ts';
import { ASSUMED_UID } from './replay-step.ts';
import { formatTunnel } from './replay-text.ts';
import { sameEntry } from './tunnel-status.ts';
import { formatEvent, type Trail, type TunnelTrails } from './tunnel-trail.ts';

export type LiveContext = {
  readonly trails: TunnelTrails;
  /** Tunnels whose writes failed: `NAMESPACE/NAME INTERFACE`. */
  readonly troubled: ReadonlySet<string>;
  /** Why the refreshes of a tunnel came at other events than in the replay, if they did. */
  readonly shiftOf: (tunnel: string) => Shift | undefined;
  /** The window ends before the stream does: what is live may be newer, and rightly so. */
  readonly endsEarly: boolean;
};

/** Holds a Connection at the end of a replay against what the API shows, and says where each difference comes from. */
export function diffConnection(
  replayed: FinalConnection,
  live: Connection | undefined,
  context: LiveContext,
): Difference[] {
  const about = connectionKey(replayed);
  if (live === undefined) return [{ cause: 'missing-object', about, message: 'the API has no such Connection' }];
  if (replayed.uid !== ASSUMED_UID && live.metadata.uid !== replayed.uid) {
    const message = `the API has another Connection of this name: uid ${live.metadata.uid}, replayed ${replayed.uid}`;
    return [{ cause: 'missing-object', about, message }];
  }
  const entries = new Map((live.status?.tunnels ?? []).map((entry) => [entry.interfaceID, entry]));
  const differences: Difference[] = [];
  for (const entry of replayed.status.tunnels ?? []) {
    const difference = diffTunnel(about, entry, entries.get(entry.interfaceID), live, context);
    if (difference !== undefined) differences.push(difference);
    entries.delete(entry.interfaceID);
  }
  for (const entry of entries.values()) differences.push(extraTunnel(about, entry, context));
  return [...differences, ...diffAggregate(about, replayed, live, differences.length > 0)];
}

function diffTunnel(
  connection: string,
  replayed: TunnelEntry,
  live: TunnelEntry | undefined,
  { metadata }: Connection,
  { trails, troubled, shiftOf, endsEarly }: LiveContext,
): Difference | undefined {
  const about = `${connection} ${replayed.interfaceID}`;
  const trail = trails.get(about);
  if (live !== undefined && sameEntry(live, replayed)) return undefined;
  const events = trail?.events.map(formatEvent) ?? [];
  const shown = `live ${live === undefined ? 'has no entry' : formatTunnel(live)}; replayed ${formatTunnel(replayed)}`;
  const tell = (cause: Difference['cause'], why: string): Difference => ({
    cause,
    about,
    message: `${shown}: ${why}`,
    events,
  });
  if (live === undefined) {
    return endsEarly ? tell('after-window', 'removed since') : tell('unexplained', 'nothing in the window removes it');
  }
  const owners = foreignOwners(metadata.managedFields, replayed.interfaceID);
  if (owners.length > 0) return tell('foreign-writer', `${owners.join(', ')} owns fields of it`);
  if (isNewer(live, trail)) return tell('after-window', 'written since, from later events');
  const shift = trail?.isAssumed ? WINDOW_START : shiftOf(about);
  // A reason that changes while the value stays is a refresh like any other.
  if (shift !== undefined && live.value === replayed.value) {
    return tell(shift.cause, `refreshed from another event: ${shift.why}`);
  }
  const behind = trail?.entries.toReversed().findIndex(({ entry }) => sameEntry(entry, live)) ?? -1;
  if (behind < 0) return tell('unexplained', 'no event of the window makes it so');
  const written = trail?.entries.at(-1 - behind);
  const why = `it is as of #${written?.sequence}, ${behind} ${behind === 1 ? 'write' : 'writes'} behind`;
  return troubled.has(about) ? tell('api-trouble', `${why}; writes of it failed`) : tell('lateness', why);
}

/** Later than anything that an event of the window could have written. */
function isNewer(live: TunnelEntry, trail: Trail | undefined): boolean {
  const last = (trail?.events.at(-1)?.event?.data as { readonly observedAt?: string } | undefined)?.observedAt;
  return last !== undefined && [live.latency?.timestamp, live.lastTransitionTime].some((time) => (time ?? '') > last);
}

function extraTunnel(connection: string, entry: TunnelEntry, { trails, endsEarly }: LiveContext): Difference {
  const about = `${connection} ${entry.interfaceID}`;
  const events = trails.get(about)?.events.map(formatEvent) ?? [];
  const message = `live ${formatTunnel(entry)}; not replayed`;
  if (endsEarly) return { cause: 'after-window', about, message: `${message}: may be listed since`, events };
  const why = events.length === 0 ? 'no event of the window is about it' : 'the last of its events took it away';
  return { cause: 'orphan-entry', about, message: `${message}: ${why}`, events };
}

/** Where tunnels differ the aggregate may as well; what counts is whether it fits the tunnels beside it. */
function diffAggregate(
  about: string,
  replayed: FinalConnection,
  { status, metadata }: Connection,
  tunnelsDiffer: boolean,
): Difference[] {
  const { value } = status ?? {};
  const fitting = aggregateValue(status?.tunnels ?? []);
  if (value === fitting && (tunnelsDiffer || value === replayed.status.value)) return [];
  const owners = foreignOwners(metadata.managedFields, undefined);
  const message = `live status.value ${value ?? 'absent'}, replayed ${replayed.status.value}, its own tunnels make it ${fitting}`;
  if (owners.length > 0)
    return [{ cause: 'foreign-writer', about, message: `${message}: ${owners.join(', ')} owns it` }];
  return [{ cause: 'lateness', about, message: `${message}: connection-aggregate has not caught up` }];
}
