import type { Connection, ConnectionValue, TunnelEntry } from './connection.ts';
import { type EventPlace, isBefore } from './event-place.ts';
import { formatLatency } from './latency.ts';
import type { Listed, Observation, Silent, TunnelEvent, Unlisted } from './observation.ts';

/**
 * What the events of one tunnel mean for its entry in `status.tunnels`.
 *
 * Two steps, both pure: {@link judgeEvent} against what the function remembers (order, listing, throttle) settles most
 * events without a call; {@link judgeWrite} against the Connection as read settles the rest.
 */

/** What is remembered of a tunnel, as JSON in the bucket `tunnel-state`. */
export type TunnelState = {
  readonly connectionUid: string;
  readonly listed: boolean;
  /** Highest epoch seen. */
  readonly gatewayEpoch: number;
  /** Highest sequence seen of that epoch; 0 before the first. */
  readonly sequence: number;
  /** Of the event that this was kept with. */
  readonly place?: EventPlace;
  /** What the entry shows, as far as this function knows; absent until it has looked. */
  readonly shown?: Shown;
  /** A change of value that was told and is not known to be written: the API refused it, or did not answer. */
  readonly pending?: Pending;
};

/** `superseded`: changes of value told before this one since the last that was written. */
export type Pending = { readonly value: ConnectionValue; readonly superseded: number };

export type Shown = {
  readonly value: ConnectionValue;
  readonly reason?: string;
  /** Gateway epoch and its monotonic time of the last write, which the throttle counts from; epoch 0: never written. */
  readonly gatewayEpoch: number;
  readonly monotonicMs: number;
};

export type StatusSettings = { readonly updateStatusIntervalMs: number };

export type Judgement =
  /** Nothing to write; `state` is what to remember, without need to keep it durably. */
  | {
      readonly kind: 'throttled' | 'stale' | 'orphan';
      readonly reason: string;
      readonly state: TunnelState | undefined;
    }
  /** A listing changed: keep `state` durably. */
  | { readonly kind: 'listing'; readonly reason: string; readonly state: TunnelState }
  /** Read the Connection and ask {@link judgeWrite}. */
  | ({ readonly kind: 'candidate' } & WriteCandidate);

/**
 * An event that differs from what is shown as far as is known; `state` is what to remember if nothing is written.
 * `isDue`: it is written even if the value turns out to be shown already.
 */
export type WriteCandidate = {
  readonly state: TunnelState;
  readonly event: Observation | Silent;
  readonly isDue: boolean;
};

/**
 * With the order of an event that was handled before. Most that are only throttled are kept nowhere but in the stream:
 * who takes a tunnel over learns of them so.
 */
export function withHandled(state: TunnelState | undefined, event: TunnelEvent | undefined): TunnelState | undefined {
  if (!state?.listed || event === undefined || !('sequence' in event)) return state;
  const { gatewayEpoch, sequence } = event;
  const isNewer = gatewayEpoch === state.gatewayEpoch ? sequence > state.sequence : gatewayEpoch > state.gatewayEpoch;
  return isNewer ? { ...state, gatewayEpoch, sequence } : state;
}

/**
 * Whether others handled the event, and kept what followed, while somebody slept with it in hand. Observations have an order
 * of their own and are judged by that.
 */
export function isOvertaken(state: TunnelState | undefined, event: TunnelEvent, place: EventPlace): boolean {
  return !('sequence' in event) && state?.place !== undefined && isBefore(place, state.place);
}

/** Whether nothing newer than this very event was seen, by its order. */
export function isNewestSeen(state: TunnelState | undefined, event: TunnelEvent): event is Observation {
  return 'sequence' in event && event.gatewayEpoch === state?.gatewayEpoch && event.sequence === state.sequence;
}

/** Whether an entry has a time of this very event. */
export function isLabelledBy(entry: TunnelEntry, { observedAt }: Observation | Silent): boolean {
  return entry.latency?.timestamp === observedAt || entry.lastTransitionTime === observedAt;
}

export const GATEWAY_SILENT = 'GatewaySilent';

export function judgeEvent(state: TunnelState | undefined, event: TunnelEvent, settings: StatusSettings): Judgement {
  switch (event.kind) {
    case 'listed':
      return judgeListed(state, event);
    case 'unlisted':
      return judgeUnlisted(state, event);
    case 'silent':
      return judgeSilent(state, event);
    default:
      return judgeObservation(state, event, settings);
  }
}

/** A `listed` that comes in order always resets the throttle: the entry may have been added anew. */
function judgeListed(state: TunnelState | undefined, event: Listed): Judgement {
  const sameObject = state?.connectionUid === event.connectionUid;
  if (state !== undefined && event.gatewayEpoch < state.gatewayEpoch && (sameObject || !state.listed)) {
    return { kind: 'stale', reason: 'OlderEpoch', state };
  }
  const newEpoch = event.gatewayEpoch > (state?.gatewayEpoch ?? 0);
  return {
    kind: 'listing',
    reason: 'Listed',
    state: {
      connectionUid: event.connectionUid,
      listed: true,
      gatewayEpoch: newEpoch ? event.gatewayEpoch : (state?.gatewayEpoch ?? 0),
      sequence: newEpoch ? 0 : (state?.sequence ?? 0),
    },
  };
}

function judgeUnlisted(state: TunnelState | undefined, event: Unlisted): Judgement {
  if (!state?.listed) return { kind: 'stale', reason: 'NotListed', state };
  if (event.gatewayEpoch < state.gatewayEpoch) return { kind: 'stale', reason: 'OlderEpoch', state };
  const { shown: _shown, pending: _pending, ...rest } = state;
  return { kind: 'listing', reason: 'Unlisted', state: { ...rest, listed: false } };
}

function judgeSilent(state: TunnelState | undefined, event: Silent): Judgement {
  if (!state?.listed) return { kind: 'orphan', reason: 'NotListed', state };
  if (event.gatewayEpoch < state.gatewayEpoch) return { kind: 'stale', reason: 'OlderEpoch', state };
  return { kind: 'candidate', event, state: withPending(state, 'Error'), isDue: true };
}

function judgeObservation(state: TunnelState | undefined, event: Observation, settings: StatusSettings): Judgement {
  if (!state?.listed) return { kind: 'orphan', reason: 'NotListed', state };
  if (event.gatewayEpoch < state.gatewayEpoch) return { kind: 'stale', reason: 'OlderEpoch', state };
  if (event.gatewayEpoch === state.gatewayEpoch && event.sequence <= state.sequence) {
    return { kind: 'stale', reason: 'OlderSequence', state };
  }
  const next: TunnelState = { ...state, gatewayEpoch: event.gatewayEpoch, sequence: event.sequence };
  const { shown, pending } = state;
  if (shown !== undefined && shown.value !== event.value && event.value === 'Connecting') {
    return { kind: 'throttled', reason: 'Undecided', state: next };
  }
  const isDue = !isThrottled(shown, event, settings);
  if (shown?.value === event.value && pending === undefined) {
    if (event.kind === 'miss') return { kind: 'throttled', reason: 'Miss', state: next };
    if (!isDue) return { kind: 'throttled', reason: 'UpdateInterval', state: next };
  }
  return { kind: 'candidate', event, state: withPending(next, event.value), isDue };
}

function isThrottled(shown: Shown | undefined, event: Observation, settings: StatusSettings): boolean {
  return (
    shown?.value === event.value &&
    shown.gatewayEpoch === event.gatewayEpoch &&
    event.monotonicMs - shown.monotonicMs <= settings.updateStatusIntervalMs
  );
}

/** Remembers a change of value until it is known to be written, and how many it takes the place of. */
function withPending(state: TunnelState, value: ConnectionValue): TunnelState {
  const { shown, pending } = state;
  if (pending === undefined) {
    const isTransition = shown !== undefined && shown.value !== value;
    return isTransition ? { ...state, pending: { value, superseded: 0 } } : state;
  }
  if (pending.value === value) return state;
  return { ...state, pending: { value, superseded: pending.superseded + 1 } };
}

/** `superseded`: changes of value told before and never shown. */
export type WriteJudgement = { readonly superseded: number } & (
  | { readonly kind: 'write'; readonly entry: TunnelEntry; readonly before: TunnelEntry; readonly state: TunnelState }
  /** `entry`: as it is, where it is as this would write it. */
  | {
      readonly kind: 'throttled' | 'orphan';
      readonly reason: string;
      readonly state: TunnelState;
      readonly entry?: TunnelEntry;
    }
);

/** `connection` as read: whether the candidate still is to be written, as what, and what to remember then. */
export function judgeWrite(candidate: WriteCandidate, connection: Connection | undefined): WriteJudgement {
  const { event, isDue } = candidate;
  const { pending, ...state } = candidate.state;
  const orphan = (reason: string) => ({ kind: 'orphan', reason, state, superseded: 0 }) as const;
  if (connection === undefined) return orphan('NoConnection');
  if (connection.metadata.uid !== state.connectionUid) return orphan('OtherConnection');
  const before = connection.status?.tunnels?.find((tunnel) => tunnel.interfaceID === event.interfaceId);
  if (before === undefined) return orphan('NoEntry');

  // Where the entry differs from what it showed last, one write that got no answer was done all the same.
  const wasShown = state.shown !== undefined && state.shown.value !== before.value ? 1 : 0;
  const superseded = Math.max(0, (pending?.superseded ?? 0) - wasShown);
  if (event.kind === 'silent') return { ...judgeSilentWrite(state, event, before), superseded };
  if (before.value !== event.value && event.value === 'Connecting' && before.value !== undefined) {
    return { kind: 'throttled', reason: 'Undecided', state: seen(state, before), superseded };
  }
  if (before.value === event.value && event.kind === 'miss') {
    return { kind: 'throttled', reason: 'Miss', state: seen(state, before), superseded };
  }
  if (before.value === event.value && !isDue) {
    return { kind: 'throttled', reason: 'UpdateInterval', state: seen(state, before), superseded };
  }
  const entry = entryOf(event, before);
  const written = {
    ...state,
    shown: shownOf(entry, event.gatewayEpoch, event.monotonicMs),
  };
  if (sameEntry(before, entry)) return { kind: 'throttled', reason: 'Unchanged', state: written, entry, superseded };
  return { kind: 'write', entry, before, state: written, superseded };
}

function judgeSilentWrite(state: TunnelState, event: Silent, before: TunnelEntry) {
  const entry: TunnelEntry = {
    interfaceID: event.interfaceId,
    value: 'Error',
    reason: GATEWAY_SILENT,
    ...(event.message === undefined ? {} : { message: event.message }),
    lastTransitionTime: transitionTime(before, 'Error', event.observedAt),
  };
  const shown = shownOf(entry, state.shown?.gatewayEpoch ?? 0, state.shown?.monotonicMs ?? 0);
  if (before.value === 'Error' && before.reason === GATEWAY_SILENT) {
    return { kind: 'throttled', reason: 'Unchanged', state: { ...state, shown }, entry: before } as const;
  }
  return { kind: 'write', entry, before, state: { ...state, shown } } as const;
}

/** Remembers what the entry shows without having written it: epoch 0 never throttles. */
function seen(state: TunnelState, entry: TunnelEntry): TunnelState {
  return state.shown?.value === entry.value ? state : { ...state, shown: shownOf(entry, 0, 0) };
}

function shownOf(entry: TunnelEntry, gatewayEpoch: number, monotonicMs: number): Shown {
  const { value, reason } = entry;
  return { value, gatewayEpoch, monotonicMs, ...(reason === undefined ? {} : { reason }) };
}

/** Reason, message and transition time are set and cleared together with the value. */
function entryOf(event: Observation, before: TunnelEntry): TunnelEntry {
  const latency =
    event.value !== 'Connected' || event.kind === 'unmonitored'
      ? undefined
      : event.rttNs === undefined
        ? before.value === 'Connected'
          ? before.latency
          : undefined
        : { value: formatLatency(event.rttNs), timestamp: event.observedAt };
  return {
    interfaceID: event.interfaceId,
    value: event.value,
    ...(latency === undefined ? {} : { latency }),
    ...(event.reason === undefined ? {} : { reason: event.reason }),
    ...(event.message === undefined ? {} : { message: event.message }),
    lastTransitionTime: transitionTime(before, event.value, event.observedAt),
  };
}

function transitionTime(before: TunnelEntry, value: ConnectionValue, now: string): string {
  return before.value === value ? (before.lastTransitionTime ?? now) : now;
}

/** Whether two entries of one tunnel show the same, to the last label. */
export function sameEntry(a: TunnelEntry, b: TunnelEntry): boolean {
  return (
    a.value === b.value &&
    a.reason === b.reason &&
    a.message === b.message &&
    a.lastTransitionTime === b.lastTransitionTime &&
    a.latency?.value === b.latency?.value &&
    a.latency?.timestamp === b.latency?.timestamp
  );
}

/** An entry as connection-ensure adds it, before anything is known of the tunnel. */
export function initialEntry(interfaceId: string, now: string): TunnelEntry {
  return { interfaceID: interfaceId, value: 'Connecting', lastTransitionTime: now };
}
