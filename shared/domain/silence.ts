import type { ConnectionRef } from './connection.ts';
import { type TimerMessage, timerMessage } from './timer-message.ts';

/** The timer that asks whether a gateway still speaks. Its times are the bus server's, never a process's own. */

export const SILENCE_DUE_TYPE = 'wg-keepalive.silence-due.v1';

export type SilenceDue = {
  readonly namespace: string;
  readonly connection: string;
  /** Unix ms, server time, that the timer was armed for. */
  readonly dueAtUnixMs: number;
  /** Only while an older run hides the words of the one that counts. */
  readonly hidden?: HiddenSince;
};

/** How far the run that counts had come, as tunnel-status keeps it, and since when it is there. */
export type HiddenSince = { readonly sequence: number; readonly sinceUnixMs: number };

export const silenceDueSchema = {
  $id: SILENCE_DUE_TYPE,
  type: 'object',
  properties: {
    namespace: { type: 'string', minLength: 1, maxLength: 253 },
    connection: { type: 'string', minLength: 1, maxLength: 253 },
    dueAtUnixMs: { type: 'integer', minimum: 0 },
    hidden: {
      type: 'object',
      properties: { sequence: { type: 'integer', minimum: 0 }, sinceUnixMs: { type: 'integer', minimum: 0 } },
      required: ['sequence', 'sinceUnixMs'],
    },
  },
  required: ['namespace', 'connection', 'dueAtUnixMs'],
} as const;

export function silenceTimerMessage(
  connection: ConnectionRef,
  dueAtUnixMs: number,
  hidden?: HiddenSince,
): TimerMessage {
  const about = { namespace: connection.namespace, connection: connection.name };
  const data: SilenceDue = { ...about, dueAtUnixMs, ...(hidden === undefined ? {} : { hidden }) };
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

/** What a message says whose sender nobody can tell. */
export const INVALID_WORD = 'invalid';

/** Whether a word may come from the run `gatewayEpoch`, or a newer one; an older run does not speak for it. */
export function isOfRun(word: LastWord, gatewayEpoch: number): boolean {
  return word.gatewayEpoch >= gatewayEpoch || word.kind === INVALID_WORD;
}

export type SilenceJudgement =
  | { readonly kind: 'alive' | 'late' | 'outage'; readonly nextDueAtUnixMs: number }
  /** An older run still speaks, and may have the last word where the run that counts has one: ask {@link judgeHidden}. */
  | { readonly kind: 'hidden'; readonly silence: Silence }
  | Silence;

export type Silence = {
  readonly kind: 'silent';
  /** The run that counts. */
  readonly gatewayEpoch: number;
  readonly sinceUnixMs?: number;
  readonly nextDueAtUnixMs: number;
};

/**
 * All times are the server's. What counts as a word of the gateway is an observation of the run that counts, or the
 * listing that it has to answer.
 *
 * @param acceptedEpoch the run that connection-ensure accepted, 0 if that is not known
 * @param busWasAway the bus was out of reach within the last `silentAfterMs`: what gateways said may still be on its way
 */
export function judgeSilence(
  due: Pick<SilenceDue, 'dueAtUnixMs'> & { readonly storedAtUnixMs: number },
  { lastWords, acceptedEpoch }: { readonly lastWords: readonly LastWord[]; readonly acceptedEpoch: number },
  silentAfterMs: number,
  busWasAway: boolean,
): SilenceJudgement {
  const now = due.storedAtUnixMs;
  const nextDueAtUnixMs = now + silentAfterMs;
  if (now - due.dueAtUnixMs > MAX_LATENESS_MS) return { kind: 'late', nextDueAtUnixMs };
  const gatewayEpoch = Math.max(1, acceptedEpoch, ...lastWords.map((word) => word.gatewayEpoch));
  const said = lastWords.filter((word) => isSpokenByGateway(word) || word.kind === 'listed');
  const lastHeard = latest(said.filter((word) => isOfRun(word, gatewayEpoch)));
  if (now - lastHeard < silentAfterMs) return { kind: 'alive', nextDueAtUnixMs: lastHeard + silentAfterMs };
  if (busWasAway) return { kind: 'outage', nextDueAtUnixMs };
  const since = lastHeard === 0 ? {} : { sinceUnixMs: lastHeard };
  const silence: Silence = { kind: 'silent', gatewayEpoch, ...since, nextDueAtUnixMs };
  return now - latest(said) < silentAfterMs ? { kind: 'hidden', silence } : silence;
}

function latest(words: readonly LastWord[]): number {
  return Math.max(0, ...words.map(({ storedAtUnixMs }) => storedAtUnixMs));
}

/**
 * Whether a run is silent whose words are hidden: it is if tunnel-status, too, has seen nothing new of it.
 *
 * @param before what the timer brought from the last look
 * @param sequence how far the run has come now
 * @param patienceMs tunnel-status keeps how far only with each write, so that a run that lives may seem to stand still
 * @returns what to look at again; `undefined`: it is silent
 */
export function judgeHidden(
  before: HiddenSince | undefined,
  sequence: number,
  nowUnixMs: number,
  patienceMs: number,
): HiddenSince | undefined {
  if (before === undefined || before.sequence !== sequence) return { sequence, sinceUnixMs: nowUnixMs };
  return nowUnixMs - before.sinceUnixMs < patienceMs ? before : undefined;
}
