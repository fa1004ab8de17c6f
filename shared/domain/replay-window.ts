import type { ConnectionRef } from './connection.ts';
import { parseDuration } from './duration.ts';
import type { RecordedMessage } from './recorded-message.ts';
import { parseRfc3339, unixMsOf } from './rfc3339-nanos.ts';
import { subjectMatches } from './subject-pattern.ts';
import { decisionSubject, gatewaySubject, observationsFilter } from './subjects.ts';

/** Where a window begins or ends. Times are the server's times of the messages; nobody's wall clock counts. */
export type Bound =
  | { readonly kind: 'sequence'; readonly sequence: number }
  | { readonly kind: 'time'; readonly unixMs: number }
  /** Before the last message of OBSERVATIONS. */
  | { readonly kind: 'relative'; readonly beforeEndMs: number };

/** Both bounds are part of it. */
export type ReplayWindow = { readonly from?: Bound; readonly to?: Bound; readonly connection?: ConnectionRef };

/** `#1234` or `1234`, `2026-01-02T03:04:05Z`, `-15m`; `undefined` for anything else. */
export function parseBound(text: string): Bound | undefined {
  const sequence = /^#?(\d{1,15})$/.exec(text)?.[1];
  if (sequence !== undefined)
    return Number(sequence) > 0 ? { kind: 'sequence', sequence: Number(sequence) } : undefined;
  const instant = parseRfc3339(text);
  if (instant !== undefined) return { kind: 'time', unixMs: unixMsOf(instant) };
  const beforeEndMs = text.startsWith('-') ? parseDuration(text.slice(1)) : undefined;
  return beforeEndMs === undefined || beforeEndMs < 0 ? undefined : { kind: 'relative', beforeEndMs };
}

export function formatBound(bound: Bound, formatTime: (unixMs: number) => string): string {
  if (bound.kind === 'sequence') return `#${bound.sequence}`;
  return bound.kind === 'time' ? formatTime(bound.unixMs) : `${bound.beforeEndMs} ms before the end`;
}

export type FixedBound = Exclude<Bound, { readonly kind: 'relative' }>;

/** A relative bound as a time. @param endUnixMs server time of the last message of OBSERVATIONS */
export function fixBound(bound: Bound | undefined, endUnixMs: number): FixedBound | undefined {
  return bound?.kind === 'relative' ? { kind: 'time', unixMs: endUnixMs - bound.beforeEndMs } : bound;
}

/** Whether the time of the last message has to be known. */
export function windowNeedsEnd({ from, to }: ReplayWindow): boolean {
  return from?.kind === 'relative' || to?.kind === 'relative';
}

/** Whether it is seen from the bounds alone that the window ends before it begins. */
export function endsBeforeItBegins({ from, to }: ReplayWindow): boolean {
  if (from?.kind === 'sequence' && to?.kind === 'sequence') return from.sequence > to.sequence;
  if (from?.kind === 'time' && to?.kind === 'time') return from.unixMs > to.unixMs;
  return from?.kind === 'relative' && to?.kind === 'relative' && from.beforeEndMs < to.beforeEndMs;
}

/** Where a message stands: the first one that is `after` ends the window, so order is all that counts. */
export type Position = 'before' | 'inside' | 'after';

/** What was made of the last events of a window is in other streams a little later. */
const DECIDED_AFTER_MS = 60_000;

/**
 * Holds messages of one stream, in their order, against a window. A window by sequence (which counts OBSERVATIONS) does
 * not bound other streams.
 */
export function windowFilter({ from, to }: ReplayWindow, endUnixMs: number): (message: RecordedMessage) => Position {
  const begin = fixBound(from, endUnixMs);
  const end = fixBound(to, endUnixMs);
  let hasBegun = begin === undefined;
  return (message) => {
    if (!hasBegun && begin !== undefined) {
      if (!isPast(message, begin, true)) return 'before';
      hasBegun = true;
    }
    return end !== undefined && isPast(message, end, false) ? 'after' : 'inside';
  };
}

function isPast({ stream, sequence, storedAtUnixMs }: RecordedMessage, bound: FixedBound, orAt: boolean): boolean {
  if (bound.kind === 'sequence' && stream !== 'OBSERVATIONS') return orAt;
  const graceMs = stream === 'OBSERVATIONS' || orAt ? 0 : DECIDED_AFTER_MS;
  const [place, limit] =
    bound.kind === 'sequence' ? [sequence, bound.sequence] : [storedAtUnixMs, bound.unixMs + graceMs];
  return orAt ? place >= limit : place > limit;
}

/** Whether a message of OBSERVATIONS, DECISIONS or GATEWAYS is about a Connection. */
export function isAboutConnection({ event, raw }: RecordedMessage, ref: ConnectionRef): boolean {
  if (raw !== undefined) {
    const { subject } = raw;
    return (
      [decisionSubject(ref), gatewaySubject(ref)].includes(subject) || subjectMatches(observationsFilter(ref), subject)
    );
  }
  const { namespace, connection } = (event.data ?? {}) as {
    readonly namespace?: unknown;
    readonly connection?: unknown;
  };
  return namespace === ref.namespace && connection === ref.name;
}
