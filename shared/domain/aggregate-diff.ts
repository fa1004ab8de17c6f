import { type ConnectionValue, connectionKey } from './connection.ts';
import { DECISION_TYPE, type Decision } from './decision.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { Difference } from './replay-difference.ts';
import type { ReplayStep } from './replay-step.ts';

type Change = { readonly value: ConnectionValue; readonly at: number };
type Values = {
  readonly replayed: Change[];
  readonly recorded: Change[];
  /** What it was before the first recorded decision, by that decision. */
  recordedBefore?: ConnectionValue | undefined;
  /** Of `replayed`, those of a time at which the window had not yet told of every tunnel: the last may be as it was. */
  opening: number;
  /** Event by which the last tunnel came to be assumed; 0: none is. */
  assumedBySequence: number;
};

/**
 * Holds the values of whole Connections against those that connection-aggregate decided. It looks at a Connection as it
 * finds it, so it may pass over states that did not last; another order, or a value that never was, needs explaining.
 */
export class AggregateDiff {
  readonly #connections = new Map<string, Values>();
  readonly #trouble: Difference[] = [];

  step({ kind, connection, after, sequence, storedAtUnixMs, ...step }: ReplayStep): void {
    if (connection === undefined) return;
    const values = this.#of(connectionKey(connection));
    if (kind === 'assumed') values.assumedBySequence = sequence;
    if (kind === 'written' && step.function === 'connection-aggregate') push(values.replayed, after, storedAtUnixMs);
    if (sequence === values.assumedBySequence) values.opening = values.replayed.length;
  }

  /** A message of DECISIONS. */
  decision({ event, storedAtUnixMs: at }: RecordedMessage): void {
    const decision = event?.type === DECISION_TYPE ? (event.data as Decision) : undefined;
    if (decision?.function !== 'connection-aggregate') return;
    const about = `${decision.namespace}/${decision.connection}`;
    if (decision.outcome === 'written') {
      const values = this.#of(about);
      if (values.recorded.length === 0) values.recordedBefore = shownIn(decision.before);
      push(values.recorded, decision.after, at);
    }
    if (decision.outcome === 'failed') {
      this.#trouble.push({
        cause: 'api-trouble',
        about,
        at,
        message: `connection-aggregate failed (${decision.reason})`,
      });
    }
  }

  /** @param endUnixMs - end of the window: what was decided later is about later events */
  finish(endUnixMs: number): readonly Difference[] {
    const compared = [...this.#connections].flatMap(([about, values]) => compare(about, values, endUnixMs));
    return [...this.#trouble, ...compared];
  }

  #of(about: string): Values {
    let values = this.#connections.get(about);
    if (values === undefined) {
      values = { replayed: [], recorded: [], opening: 0, assumedBySequence: 0 };
      this.#connections.set(about, values);
    }
    return values;
  }
}

function push(list: Change[], after: unknown, at: number): void {
  const value = shownIn(after);
  if (value !== undefined && list.at(-1)?.value !== value) list.push({ value, at });
}

function shownIn(state: unknown): ConnectionValue | undefined {
  return (state as { readonly value?: ConnectionValue } | undefined)?.value;
}

function compare(about: string, values: Values, endUnixMs: number): Difference[] {
  const { replayed, recorded, opening, assumedBySequence } = values;
  if (recorded.length === 0) return [];
  const differences: Difference[] = [];
  const add = (cause: Difference['cause'], at: number, message: string) =>
    differences.push({ cause, about, at, message });
  const { next: start, isFirstKnown } = pairingStart(values);
  let next = start;
  for (const { value, at } of isFirstKnown ? recorded.slice(1) : recorded) {
    const found = replayed.findIndex((change, index) => index >= next && change.value === value);
    if (found < 0) {
      const cause =
        at > endUnixMs ? 'after-window' : assumedBySequence > 0 && next === 0 ? 'window-start' : 'unexplained';
      add(cause, at, `recorded as ${value} at this point, never so in the replay`);
      continue;
    }
    for (const passed of replayed.slice(next, found)) {
      const cause = assumedBySequence > 0 && next === 0 ? 'window-start' : 'lateness';
      add(cause, passed.at, `was ${passed.value} for a moment; connection-aggregate looked later`);
    }
    next = found + 1;
  }
  for (const [index, { value, at }] of replayed.entries()) {
    if (index < next) continue;
    add(index < opening ? 'window-start' : 'lateness', at, `became ${value}; no such decision is recorded`);
  }
  return differences;
}

/**
 * Where a window opens on something that was decided before it, the first decision tells what that was; the replay has
 * come to it once it has heard of every tunnel, by values that are of its own making.
 */
function pairingStart({ replayed, recorded, recordedBefore, opening }: Values) {
  const known = replayed.slice(0, opening).findLastIndex(({ value }) => value === recordedBefore);
  return { next: known + 1, isFirstKnown: known >= 0 && recorded[0]?.value === recordedBefore };
}
