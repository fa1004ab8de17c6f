import type { ConnectionRef } from './connection.ts';
import { type TimerMessage, type TimerOf, timerMessage } from './timer-message.ts';

/** A timer that brings a Connection back to a function that could not do, or must not yet do, what it has to. */
export type ConnectionDue = {
  readonly namespace: string;
  readonly connection: string;
  /** How long this timer waited; the next one waits longer. */
  readonly delayMs: number;
};

/**
 * `dueAtUnixMs`: by the bus server's clock, one that has passed makes it fall due at once.
 * `armedAtUnixMs`: a label, so that no two timers of a Connection are one event.
 */
export type ConnectionTimer = Pick<ConnectionDue, 'delayMs'> & {
  readonly dueAtUnixMs: number;
  readonly armedAtUnixMs: number;
};

/** How a function takes one: of this type and shape, and about the Connection that its subject names. */
export function connectionDueContract(type: string) {
  const schema = {
    $id: type,
    type: 'object',
    properties: {
      namespace: { type: 'string', minLength: 1, maxLength: 253 },
      connection: { type: 'string', minLength: 1, maxLength: 253 },
      delayMs: { type: 'integer', minimum: 0 },
    },
    required: ['namespace', 'connection', 'delayMs'],
  };
  return { type, schema, about: ({ namespace, connection }: ConnectionDue) => [namespace, connection] } as const;
}

const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;

/** From 1 s to a minute. @param delayMs - that of the timer before, left out: there was none */
export function nextDueDelayMs(delayMs = 0): number {
  return Math.min(Math.max(2 * delayMs, FIRST_DELAY_MS), MAX_DELAY_MS);
}

/** Makes the timers of one function. */
export function connectionTimer(what: TimerOf, type: string, source: string) {
  return (connection: ConnectionRef, { dueAtUnixMs, armedAtUnixMs, delayMs }: ConnectionTimer): TimerMessage => {
    const data: ConnectionDue = { namespace: connection.namespace, connection: connection.name, delayMs };
    const id = `${what}.${connection.namespace}.${connection.name}.${armedAtUnixMs}`;
    return timerMessage(what, connection, dueAtUnixMs, { id, source, type, data });
  };
}
