import { type ConnectionValue, connectionKey } from './connection.ts';
import { DECISION_TYPE, type Decision } from './decision.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { Difference } from './replay-difference.ts';
import type { ReplayStep } from './replay-step.ts';

type Change = { readonly value: ConnectionValue; readonly at: number };
type Values = { readonly replayed: Change[]; readonly recorded: Change[]; isAssumed: boolean };

/**
 * Holds the values of whole Connections against those that connection-aggregate decided. It looks at a Connection as it
 * finds it, so it may pass over states that did not last; another order, or a value that never was, needs explaining.
 */
export class AggregateDiff {
  readonly #connections = new Map<string, Values>();
  readonly #trouble: Difference[] = [];

  step({ kind, connection, after, storedAtUnixMs, ...step }: ReplayStep): void {
    if (connection === undefined) return;
    const values = this.#of(connectionKey(connection));
    if (kind === 'assumed') values.isAssumed = true;
    if (kind === 'written' && step.function === 'connection-aggregate') push(values.replayed, after, storedAtUnixMs);
  }

  /** A message of DECISIONS. */
  decision({ event, storedAtUnixMs: at }: RecordedMessage): void {
    const decision = event?.type === DECISION_TYPE ? (event.data as Decision) : undefined;
    if (decision?.function !== 'connection-aggregate') return;
    const about = `${decision.namespace}/${decision.connection}`;
    if (decision.outcome === 'written') push(this.#of(about).recorded, decision.after, at);
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
      values = { replayed: [], recorded: [], isAssumed: false };
      this.#connections.set(about, values);
    }
    return values;
  }
}

function push(list: Change[], after: unknown, at: number): void {
  const { value } = after as { readonly value: ConnectionValue };
  if (list.at(-1)?.value !== value) list.push({ value, at });
}

function compare(about: string, { replayed, recorded, isAssumed }: Values, endUnixMs: number): Difference[] {
  const differences: Difference[] = [];
  let next = 0;
  for (const { value, at } of recorded) {
    const found = replayed.findIndex((change, index) => index >= next && change.value === value);
    if (found < 0) {
      const message = `recorded as ${value} at this point, never so in the replay`;
      const cause = at > endUnixMs ? 'after-window' : isAssumed && next === 0 ? 'window-start' : 'unexplained';
      differences.push({ cause, about, at, message });
      continue;
    }
    for (const passed of replayed.slice(next, found)) {
      const message = `was ${passed.value} for a moment; connection-aggregate looked later`;
      const cause = next === 0 && isAssumed ? 'window-start' : 'lateness';
      differences.push({ cause, about, at: passed.at, message });
    }
    next = found + 1;
  }
  if (recorded.length === 0) return [];
  for (const { value, at } of replayed.slice(next)) {
    differences.push({ cause: 'lateness', about, at, message: `became ${value}; no such decision is recorded` });
  }
  return differences;
}
