import { connectionKey } from './connection.ts';
import { DECISION_TYPE, type Decision, type JudgedBy } from './decision.ts';
import { formatDuration } from './duration.ts';
import type { EventPlace } from './event-place.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { Difference, DifferenceCause } from './replay-difference.ts';
import type { ReplayStep } from './replay-step.ts';

/** A decision is published within this long after its event, however slow the API was; later it counts as not made. */
const SETTLED_AFTER_MS = 120_000;

/** What one side says of an event. */
type Told = { readonly kind: string; readonly reason: string; readonly value?: string; readonly after: string };
type Decided = Told & { readonly judgedBy?: JudgedBy };
type Pair = EventPlace & { readonly eventId: string; readonly tunnel: string; step?: Told; decision?: Decided };

/** Why writes of a tunnel are out of step from here on: each refresh counts from the one before. */
export type Shift = {
  readonly cause: 'window-start' | 'api-trouble' | 'lateness' | 'other-settings';
  /** Ends the sentence "…: ". */
  readonly why: string;
};

export const WINDOW_START: Shift = {
  cause: 'window-start',
  why: 'what was written last before the window is not known',
};
const API_TROUBLE: Shift = {
  cause: 'api-trouble',
  why: 'a write before it failed, so this one came at another event',
};
const LATENESS: Shift = { cause: 'lateness', why: 'the write before it came later, so this one did too' };

/**
 * Holds the timeline of a replay against the DECISIONS of tunnel-status, in bounded memory. A step and a decision about
 * the same event belong together; they are judged in the order of the events, once both had time to come.
 */
export class DecisionDiff {
  readonly #judgedBy: JudgedBy;
  readonly #pairs = new Map<string, Pair>();
  /** The window's events of late, by id. */
  readonly #events = new Map<string, EventPlace>();
  readonly #shifts = new Map<string, Shift>();
  /** Tunnels that were judged by other settings than the replay's, by the last decision about them. */
  readonly #others = new Map<string, Shift>();
  readonly #assumed = new Set<string>();
  #firstDecisionAt = Number.POSITIVE_INFINITY;
  #same = 0;
  #differences: Difference[] = [];

  /** @param judgedBy - what the replay judges by */
  constructor(judgedBy: JudgedBy) {
    this.#judgedBy = judgedBy;
  }

  /** Decisions that say what the replay says. */
  get same(): number {
    return this.#same;
  }

  /** Why the writes of a tunnel are out of step now, if they are. */
  shiftOf(tunnel: string): Shift | undefined {
    return this.#shifts.get(tunnel) ?? this.#others.get(tunnel);
  }

  /** An event of the window, before its steps. */
  event({ event, sequence, storedAtUnixMs }: RecordedMessage): void {
    if (event !== undefined && !this.#events.has(event.id)) this.#events.set(event.id, { sequence, storedAtUnixMs });
  }

  step({ kind, reason, connection, interfaceId, eventId, after, ...step }: ReplayStep): void {
    if (connection === undefined || interfaceId === undefined) return;
    const tunnel = `${connectionKey(connection)} ${interfaceId}`;
    if (kind === 'assumed') {
      this.#shifts.set(tunnel, WINDOW_START);
      this.#assumed.add(tunnel);
    }
    if (eventId === undefined || step.function !== 'tunnel-status' || (kind !== 'written' && kind !== 'listing'))
      return;
    const pair = this.#pairOf(eventId, tunnel);
    if (pair !== undefined) pair.step = told(kind, reason, after);
  }

  /** A message of DECISIONS; those about other events than the window's are passed over. */
  decision({ event, storedAtUnixMs }: RecordedMessage): void {
    if (event?.type !== DECISION_TYPE) return;
    const {
      function: name,
      interfaceId,
      namespace,
      connection,
      outcome,
      reason,
      eventId,
      after,
      superseded,
      judgedBy,
    } = event.data as Decision;
    if (name !== 'tunnel-status' || interfaceId === undefined) return;
    this.#firstDecisionAt = Math.min(this.#firstDecisionAt, storedAtUnixMs);
    if (outcome === 'stale' || outcome === 'orphan') return;
    const pair = this.#pairOf(eventId, `${namespace}/${connection} ${interfaceId}`);
    if (pair === undefined) return;
    // What the API had refused before needs no write any more.
    const kind =
      outcome === 'throttled' && superseded !== undefined ? 'failed' : outcome === 'throttled' ? 'listing' : outcome;
    pair.decision = { ...told(kind, reason, after), ...(judgedBy && { judgedBy }) };
  }

  /** Judges the events that are old enough, and takes the differences found so far. */
  settle(nowUnixMs: number): readonly Difference[] {
    const until = nowUnixMs - SETTLED_AFTER_MS;
    const ripe = [...this.#pairs.values()].filter(({ storedAtUnixMs }) => storedAtUnixMs <= until);
    for (const pair of ripe.sort((a, b) => a.sequence - b.sequence)) {
      this.#pairs.delete(pair.eventId);
      this.#judge(pair);
    }
    for (const [id, { storedAtUnixMs }] of this.#events) {
      if (storedAtUnixMs > until) break;
      this.#events.delete(id);
    }
    const found = this.#differences;
    this.#differences = [];
    return found;
  }

  finish(): readonly Difference[] {
    return this.settle(Number.POSITIVE_INFINITY);
  }

  #pairOf(eventId: string, tunnel: string): Pair | undefined {
    const known = this.#pairs.get(eventId);
    const place = this.#events.get(eventId);
    if (known !== undefined || place === undefined) return known;
    const pair: Pair = { ...place, eventId, tunnel };
    this.#pairs.set(eventId, pair);
    return pair;
  }

  #judge(pair: Pair): void {
    const { step, decision } = pair;
    if (decision?.judgedBy !== undefined) this.#learnSettings(pair.tunnel, decision.judgedBy);
    if (step !== undefined && decision !== undefined) this.#compare(pair, step, decision);
    else if (step !== undefined) this.#undecided(pair, step);
    else if (decision !== undefined) this.#unexpected(pair, decision);
  }

  /** Back at the replay's settings the writes stay out of step until both come at the same event. */
  #learnSettings(tunnel: string, { updateStatusIntervalMs: there }: JudgedBy): void {
    const { updateStatusIntervalMs: here } = this.#judgedBy;
    const before = this.#others.get(tunnel);
    if (there !== here) {
      const why = `judged by ping-update-status-interval ${formatDuration(there)}, the replay by ${formatDuration(here)}`;
      this.#others.set(tunnel, { cause: 'other-settings', why });
    } else if (before !== undefined) {
      this.#others.delete(tunnel);
      if (!this.#shifts.has(tunnel)) this.#shifts.set(tunnel, before);
    }
  }

  /** What explains that one side wrote and the other did not. Settings put off a refresh, never a change. */
  #shiftFor(tunnel: string, { reason }: Told): Shift | undefined {
    const shift = this.shiftOf(tunnel);
    return shift?.cause === 'other-settings' && reason !== 'Refresh' ? undefined : shift;
  }

  #compare(pair: Pair, step: Told, decision: Told): void {
    const { tunnel } = pair;
    if (decision.kind === 'failed') {
      this.#shifts.set(tunnel, API_TROUBLE);
      this.#tell('api-trouble', pair, `recorded as failed (${decision.reason}): the API did not take it`);
    } else if (decision.kind !== step.kind) {
      this.#tell('unexplained', pair, `recorded as ${decision.kind} (${decision.reason}), replayed as ${step.kind}`);
    } else if (decision.after === step.after) {
      this.#same += 1;
      this.#shifts.delete(tunnel);
    } else {
      const cause = this.#assumed.has(tunnel) ? 'window-start' : (this.shiftOf(tunnel)?.cause ?? 'unexplained');
      this.#tell(cause, pair, `recorded ${decision.after}, replayed ${step.after}`);
      // From this write on both know the same of the tunnel.
      this.#shifts.delete(tunnel);
    }
  }

  /** The replay wrote, the record does not say that anybody did. */
  #undecided(pair: Pair, step: Told): void {
    const shift = this.#shiftFor(pair.tunnel, step);
    if (shift !== undefined) {
      this.#tell(shift.cause, pair, `no write is recorded here: ${shift.why}`);
    } else if (pair.storedAtUnixMs < this.#firstDecisionAt) {
      this.#tell('not-recorded', pair, 'no decision as old as this is recorded');
    } else if (step.reason === 'Refresh') {
      this.#shifts.set(pair.tunnel, LATENESS);
      this.#tell('lateness', pair, 'no write is recorded here: refreshes were put off while the API was slow');
    } else {
      this.#tell('unexplained', pair, `a ${step.reason} to ${step.value ?? step.kind} that is not recorded`);
    }
  }

  /** Somebody wrote, the replay would not have. */
  #unexpected(pair: Pair, decision: Decided): void {
    const shift = this.#shiftFor(pair.tunnel, decision);
    if (decision.kind === 'failed') {
      this.#shifts.set(pair.tunnel, API_TROUBLE);
      this.#tell('api-trouble', pair, `recorded as failed (${decision.reason})`);
    } else if (shift !== undefined) {
      this.#tell(shift.cause, pair, `recorded as ${decision.kind} here, replayed as unchanged: ${shift.why}`);
    } else {
      const hint = decision.reason === 'Refresh' && decision.judgedBy === undefined ? UNTOLD : '';
      this.#tell(
        'unexplained',
        pair,
        `recorded as ${decision.kind} (${decision.reason}), replayed as unchanged${hint}`,
      );
    }
  }

  #tell(cause: DifferenceCause, { tunnel, storedAtUnixMs: at, sequence, eventId }: Pair, message: string): void {
    this.#differences.push({ cause, about: tunnel, at, message: `event #${sequence} ${eventId}: ${message}` });
  }
}

const UNTOLD =
  '; its settings are not recorded: if the functions had another ping-update-status-interval, state it by --set';

function told(kind: string, reason: string, after: unknown): Told {
  if (kind !== 'written') return { kind, reason, after: '' };
  const { value } = (after ?? {}) as { readonly value?: string };
  return { kind, reason, after: JSON.stringify(after), ...(value !== undefined && { value }) };
}
