import type { ConnectionValue } from './connection.ts';
import { type Connection, type ConnectionRef, type ConnectionStatus, connectionKey } from './connection.ts';
import type { OutcomeName } from './decision.ts';
import type { EventPlace } from './event-place.ts';

/** The timeline of a replay: one step for everything that changed something, or that somebody should know. */

/**
 * - `written`: an entry of `status.tunnels` (tunnel-status) or value, latency, conditions (connection-aggregate)
 * - `listing`: a tunnel was listed or unlisted
 * - `assumed`: the window starts after the tunnel was listed; it is taken as listed, as Connecting
 * - `missing`: observations that the gateway made are not in the window
 * - `invalid`: an event that no function takes
 * - `failed`: a function could not do its work; in the sandbox, whose API is perfect, that is a bug
 */
export type StepKind = 'written' | 'listing' | 'assumed' | 'missing' | 'invalid' | 'failed';

/** Events of a tunnel that changed nothing. */
export type SkippedEvents = { readonly throttled: number; readonly stale: number; readonly orphan: number };

/** What a Connection shows, in short. */
export type ConnectionView = {
  readonly value?: ConnectionValue;
  readonly latency?: string;
  readonly tunnels: Readonly<Record<ConnectionValue, number>>;
};

export type ReplayStep = {
  /** From 1. */
  readonly step: number;
  /** Stream sequence of the event that led to it. */
  readonly sequence: number;
  readonly storedAtUnixMs: number;
  readonly kind: StepKind;
  /** CamelCase word. */
  readonly reason: string;
  readonly function?: string;
  readonly connection?: ConnectionRef;
  readonly interfaceId?: string;
  readonly eventId?: string;
  /** For people: what is missing, what is wrong with an event. */
  readonly message?: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** Events of the same tunnel since the step before this one that changed nothing; absent if there were none. */
  readonly skipped?: SkippedEvents;
  /** What the Connection shows after this step. */
  readonly shows?: ConnectionView;
};

/** The uid of a Connection that the window does not name. */
export const ASSUMED_UID = 'assumed';

/** What a replay comes to. */
export type ReplaySummary = {
  readonly events: number;
  readonly first?: EventPlace;
  readonly last?: EventPlace;
  readonly steps: number;
  /** Events of tunnel-status by outcome. */
  readonly outcomes: Readonly<Record<OutcomeName, number>>;
  readonly writes: { readonly tunnels: number; readonly aggregates: number };
  /** Observations that gateways made and that are not in the window. */
  readonly missing: number;
  /** Tunnels whose listing is assumed: `NAMESPACE/NAME INTERFACE`. */
  readonly assumed: readonly string[];
  readonly connections: readonly FinalConnection[];
};

/** A Connection at the end of the window; OBSERVATIONS tell its status, not its spec. */
export type FinalConnection = ConnectionRef & { readonly uid: string; readonly status: ConnectionStatus };

export function viewOf({ status }: Connection): ConnectionView {
  const tunnels = { Connected: 0, Connecting: 0, Error: 0 };
  for (const { value } of status?.tunnels ?? []) tunnels[value] += 1;
  return {
    ...(status?.value === undefined ? {} : { value: status.value }),
    ...(status?.latency === undefined ? {} : { latency: status.latency.value }),
    tunnels,
  };
}

/** In the order of their names, so that two replays agree to the byte. */
export function finalConnections(connections: Iterable<Connection>): FinalConnection[] {
  return [...connections]
    .map(({ metadata: { namespace, name, uid }, status }) => ({ namespace, name, uid, status: status ?? {} }))
    .sort((a, b) => (connectionKey(a) < connectionKey(b) ? -1 : 1));
}
