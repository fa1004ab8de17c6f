import { connectionKey } from './connection.ts';
import { DECISION_TYPE, type Decision } from './decision.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { Difference } from './replay-difference.ts';
import type { ReplayStep } from './replay-step.ts';

/** A decision is published within this long after its event, however slow the API was; later it counts as not made. */
const SETTLED_AFTER_MS = 120_000;

type Told = { readonly reason: string; readonly kind: string; readonly at: number; readonly value?: string };
type Open = Told & { readonly key: string; readonly tunnel: string; readonly after: string; readonly sequence: number };

/** Why writes of a tunnel are out of step from here on: each refresh counts from the one before. */
type Shift = 'window-start' | 'api-trouble' | 'lateness';

/**
 * Holds the timeline of a replay against the DECISIONS of tunnel-status, both in their order, in bounded memory.
 * A decision and a step are the same if they are about the same event.
 */
export class DecisionDiff {
  readonly #steps = new Map<string, Open>();
  readonly #decisions = new Map<string, Open>();
  readonly #shifts = new Map<string, Shift>();
  readonly #assumed = new Set<string>();
  /** Ids of the window's events, with their times. */
  readonly #events = new Map<string, number>();
  #firstDecisionAt: number | undefined;
  #same = 0;
  #differences: Difference[] = [];

  /** Decisions that say what the replay says. */
  get same(): number {
    return this.#same;
  }

  /** An event of the window, before its steps. */
  event({ event, storedAtUnixMs }: RecordedMessage): void {
    if (event !== undefined) this.#events.set(event.id, storedAtUnixMs);
  }

  step(step: ReplayStep): void {
    const { kind, connection, interfaceId, eventId } = step;
    if (connection === undefined || interfaceId === undefined) return;
    const tunnel = `${connectionKey(connection)} ${interfaceId}`;
    if (kind === 'assumed') {
      this.#shifts.set(tunnel, 'window-start');
      this.#assumed.add(tunnel);
    }
    if (eventId === undefined || step.function !== 'tunnel-status' || (kind !== 'written' && kind !== 'listing'))
      return;
    const after = kind === 'written' ? (step.after as { readonly value?: string }) : undefined;
    this.#pair(
      {
        ...{ key: eventId, tunnel, kind, reason: step.reason, at: step.storedAtUnixMs, sequence: step.sequence },
        ...{ after: JSON.stringify(after), ...(after?.value !== undefined && { value: after.value }) },
      },
      'step',
    );
  }

  /** A message of DECISIONS. */
  decision({ event, sequence, storedAtUnixMs: at }: RecordedMessage): void {
    if (event?.type !== DECISION_TYPE) return;
    const decision = event.data as Decision;
    if (decision.function !== 'tunnel-status' || decision.interfaceId === undefined) return;
    this.#firstDecisionAt ??= at;
    const { outcome, reason, namespace, connection, interfaceId, eventId: key } = decision;
    const tunnel = `${namespace}/${connection} ${interfaceId}`;
    const after = outcome === 'written' ? (decision.after as { readonly value?: string }) : undefined;
    const kind = outcome === 'throttled' ? 'listing' : outcome;
    const value = after?.value === undefined ? {} : { value: after.value };
    this.#pair({ key, tunnel, kind, reason, at, sequence, after: JSON.stringify(after), ...value }, 'decision');
  }

  /** Gives up what has waited for its counterpart too long, and takes the differences found so far. */
  settle(nowUnixMs: number): readonly Difference[] {
    for (const [key, open] of this.#steps) {
      if (open.at + SETTLED_AFTER_MS > nowUnixMs) break;
      this.#steps.delete(key);
      this.#undecided(open);
    }
    for (const [key, open] of this.#decisions) {
      if (open.at + SETTLED_AFTER_MS > nowUnixMs) break;
      this.#decisions.delete(key);
      if (this.#events.has(key)) this.#unexpected(open);
    }
    for (const [id, at] of this.#events) {
      if (at + 2 * SETTLED_AFTER_MS > nowUnixMs) break;
      this.#events.delete(id);
    }
    const found = this.#differences;
    this.#differences = [];
    return found;
  }

  finish(): readonly Difference[] {
    return this.settle(Number.POSITIVE_INFINITY);
  }

  #pair(open: Open, side: 'step' | 'decision'): void {
    const [mine, theirs] = side === 'step' ? [this.#steps, this.#decisions] : [this.#decisions, this.#steps];
    const other = theirs.get(open.key);
    if (other === undefined) {
      mine.set(open.key, open);
      return;
    }
    theirs.delete(open.key);
    if (side === 'step') this.#compare(open, other);
    else this.#compare(other, open);
  }

  #compare(step: Open, decision: Open): void {
    const { tunnel } = step;
    if (decision.kind === 'failed') {
      this.#shifts.set(tunnel, 'api-trouble');
      this.#tell('api-trouble', step, `recorded as failed (${decision.reason}): the API did not take it`);
      return;
    }
    if (decision.kind !== step.kind) {
      this.#tell('unexplained', step, `recorded as ${decision.kind} (${decision.reason}), replayed as ${step.kind}`);
      return;
    }
    if (decision.after === step.after) {
      this.#same += 1;
      this.#shifts.delete(tunnel);
      return;
    }
    const cause = this.#assumed.has(tunnel) ? 'window-start' : (this.#shifts.get(tunnel) ?? 'unexplained');
    this.#tell(cause, step, `recorded ${decision.after}, replayed ${step.after}`);
    // From this write on both know the same of the tunnel.
    this.#shifts.delete(tunnel);
  }

  /** The replay wrote, the record does not say that anybody did. */
  #undecided(step: Open): void {
    const shift = this.#shifts.get(step.tunnel);
    if (step.at < (this.#firstDecisionAt ?? Number.POSITIVE_INFINITY)) {
      this.#tell('not-recorded', step, 'DECISIONS begin later than this');
    } else if (shift !== undefined) {
      this.#tell(shift, step, `no write is recorded here: ${WHY[shift]}`);
    } else if (step.reason === 'Refresh') {
      this.#shifts.set(step.tunnel, 'lateness');
      this.#tell('lateness', step, 'no write is recorded here: refreshes were put off while the API was slow');
    } else {
      this.#tell('unexplained', step, `a ${step.reason} to ${step.value ?? step.kind} that is not recorded`);
    }
  }

  /** Somebody wrote, the replay would not have. */
  #unexpected(decision: Open): void {
    if (['stale', 'orphan', 'throttled'].includes(decision.kind)) return;
    const shift = this.#shifts.get(decision.tunnel);
    if (shift !== undefined) {
      this.#tell(shift, decision, `recorded as ${decision.kind} here, replayed as unchanged: ${WHY[shift]}`);
    } else if (decision.kind === 'failed') {
      this.#shifts.set(decision.tunnel, 'api-trouble');
      this.#tell('api-trouble', decision, `recorded as failed (${decision.reason})`);
    } else {
      this.#tell('unexplained', decision, `recorded as ${decision.kind} (${decision.reason}), replayed as unchanged`);
    }
  }

  #tell(cause: Difference['cause'], { tunnel, at, key }: Open, message: string): void {
    this.#differences.push({ cause, about: tunnel, at, message: `event ${key}: ${message}` });
  }
}

const WHY: Readonly<Record<Shift, string>> = {
  'window-start': 'what was written last before the window is not known',
  'api-trouble': 'the write before failed, so this one came at another event',
  lateness: 'the write before came later, so this one did too',
};
