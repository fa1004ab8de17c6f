import type { ConnectionRef } from './connection.ts';
import { type TimerMessage, timerMessage } from './timer-message.ts';

/** The timer that brings back a gateway whose Connection is missing and could not, or must not yet, be made. */

export const ENSURE_DUE_TYPE = 'wg-keepalive.ensure-due.v1';

export type EnsureDue = {
  readonly namespace: string;
  readonly connection: string;
  /** How long this timer waited; the next one waits longer. */
  readonly delayMs: number;
};

export const ensureDueSchema = {
  $id: ENSURE_DUE_TYPE,
  type: 'object',
  properties: {
    namespace: { type: 'string', minLength: 1, maxLength: 253 },
    connection: { type: 'string', minLength: 1, maxLength: 253 },
    delayMs: { type: 'integer', minimum: 0 },
  },
  required: ['namespace', 'connection', 'delayMs'],
} as const;

/** How a function takes one: of this type and shape, and about the Connection that its subject names. */
export const ensureDueContract = {
  type: ENSURE_DUE_TYPE,
  schema: ensureDueSchema,
  about: ({ namespace, connection }: EnsureDue) => [namespace, connection],
} as const;

const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;

/** From 1 s to a minute. @param delayMs - that of the timer before, left out: there was none */
export function nextEnsureDelayMs(delayMs = 0): number {
  return Math.min(Math.max(2 * delayMs, FIRST_DELAY_MS), MAX_DELAY_MS);
}

/**
 * @param due - `dueAtUnixMs` by the bus server's clock, one that has passed makes it fall due at once;
 *   `armedAtUnixMs` is a label: no two timers of a Connection are one event
 */
export function ensureTimerMessage(
  connection: ConnectionRef,
  due: Pick<EnsureDue, 'delayMs'> & { readonly dueAtUnixMs: number; readonly armedAtUnixMs: number },
): TimerMessage {
  const { dueAtUnixMs, armedAtUnixMs, delayMs } = due;
  const data: EnsureDue = { namespace: connection.namespace, connection: connection.name, delayMs };
  return timerMessage('ensure', connection, dueAtUnixMs, {
    id: `ensure.${connection.namespace}.${connection.name}.${armedAtUnixMs}`,
    source: '/functions/connection-ensure',
    type: ENSURE_DUE_TYPE,
    data,
  });
}
