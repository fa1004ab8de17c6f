import type { ConnectionRef } from './connection.ts';
import { type TimerMessage, timerMessage } from './timer-message.ts';

/** The timer that asks whether a gateway still speaks. Its times are the bus server's, never a process's own. */

export const SILENCE_DUE_TYPE = 'wg-keepalive.silence-due.v1';

export type SilenceDue = {
  readonly namespace: string;
  readonly connection: string;
  /** Unix ms, server time, that the timer was armed for. */
  readonly dueAtUnixMs: number;
};

export const silenceDueSchema = {
  $id: SILENCE_DUE_TYPE,
  type: 'object',
  properties: {
    namespace: { type: 'string', minLength: 1, maxLength: 253 },
    connection: { type: 'string', minLength: 1, maxLength: 253 },
    dueAtUnixMs: { type: 'integer', minimum: 0 },
  },
  required: ['namespace', 'connection', 'dueAtUnixMs'],
} as const;

export function silenceTimerMessage(connection: ConnectionRef, dueAtUnixMs: number): TimerMessage {
  const data: SilenceDue = { namespace: connection.namespace, connection: connection.name, dueAtUnixMs };
  return timerMessage('silent', connection, dueAtUnixMs, {
    id: `silence.${connection.namespace}.${connection.name}.${dueAtUnixMs}`,
    source: '/functions/gateway-silence',
    type: SILENCE_DUE_TYPE,
    data,
  });
}

/** A timer that comes later than this was held up, by an outage of the bus most likely, and proves nothing. */
const MAX_LATENESS_MS = 2_000;

/** The last message of one tunnel's subject. */
export type LastWord = { readonly kind: string; readonly gatewayEpoch: number; readonly storedAtUnixMs: number };

/** What the functions say in the gateway's stead does not count. */
export function isSpokenByGateway({ kind }: LastWord): boolean {
  return kind !== 'silent' && kind !== 'unlisted' && kind !== 'listed';
}

export type SilenceJudgement =
  | { readonly kind: 'alive' | 'late' | 'outage'; readonly nextDueAtUnixMs: number }
  | {
      readonly kind: 'silent';
      readonly gatewayEpoch: number;
      readonly sinceUnixMs?: number;
      readonly nextDueAtUnixMs: number;
    };

/**
 * All times are the server's. What counts as a word of the gateway is an observation, or the listing that it has to
 * answer.
 *
 * @param busWasAway the bus was out of reach within the last `silentAfterMs`: what gateways said may still be on its way
 */
export function judgeSilence(
  due: { readonly dueAtUnixMs: number; readonly storedAtUnixMs: number },
  lastWords: readonly LastWord[],
  silentAfterMs: number,
  busWasAway: boolean,
): SilenceJudgement {
  const now = due.storedAtUnixMs;
  const nextDueAtUnixMs = now + silentAfterMs;
  if (now - due.dueAtUnixMs > MAX_LATENESS_MS) return { kind: 'late', nextDueAtUnixMs };
  const heard = lastWords.filter((word) => isSpokenByGateway(word) || word.kind === 'listed');
  const lastHeard = Math.max(0, ...heard.map(({ storedAtUnixMs }) => storedAtUnixMs));
  if (now - lastHeard < silentAfterMs) return { kind: 'alive', nextDueAtUnixMs: lastHeard + silentAfterMs };
  if (busWasAway) return { kind: 'outage', nextDueAtUnixMs };
  return {
    kind: 'silent',
    gatewayEpoch: Math.max(1, ...lastWords.map((word) => word.gatewayEpoch)),
    ...(lastHeard === 0 ? {} : { sinceUnixMs: lastHeard }),
    nextDueAtUnixMs,
  };
}
