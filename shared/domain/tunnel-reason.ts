import type { ConnectionValue } from './connection.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';
import type { Moment } from './sighting.ts';
import { hintFor } from './socket-fault.ts';
import type { Stall } from './stall.ts';

/** `reason`: a CamelCase word, after a colon what tells it from its like. `message`: a sentence for people. */
export type TunnelReason = { readonly reason: string; readonly message: string };

type Condition = {
  readonly value: ConnectionValue;
  readonly firstDue: Moment;
  readonly lastPong: Moment | undefined;
  /** Code of the last send, if it failed. */
  readonly sendError: string | undefined;
  readonly isSuspect: boolean;
  readonly hasLatePongs: boolean;
  readonly windowMs: number;
  /** The pause of this process that has just ended. */
  readonly stall: Stall | undefined;
};

/** Why a tunnel is what it is; nothing where all is well. Holds instants, never ages: one state always reads the same. */
export function tunnelReason(condition: Condition): TunnelReason | undefined {
  const { value, lastPong, sendError, isSuspect, hasLatePongs, windowMs, stall } = condition;
  if (value === 'Error') {
    const late = hasLatePongs ? `; PONGs come, but later than ${windowMs} ms` : '';
    const reason = sendError === undefined ? 'Lost' : sendFailed(sendError);
    return { reason: lastPong === undefined ? 'NeverAnswered' : reason, message: silence(condition) + late };
  }
  if (sendError !== undefined) return { reason: sendFailed(sendError), message: silence(condition) };
  if (isSuspect) return { reason: 'Suspect', message: silence(condition) };
  if (stall !== undefined) return { reason: 'Starved', message: describeStall(stall) };
  return undefined;
}

function sendFailed(code: string): string {
  return `SendFailed:${code}`;
}

function silence({ firstDue, lastPong, sendError }: Condition): string {
  const since =
    lastPong === undefined
      ? `no PONG since the first PING was due at ${formatRfc3339Ms(firstDue.unixMs)}`
      : `no PONG since ${formatRfc3339Ms(lastPong.unixMs)}`;
  return sendError === undefined ? since : `${since}; sending fails with ${sendError}: ${hintFor(sendError)}`;
}

function describeStall({ from, to }: Stall): string {
  return `this gateway itself stood still from ${formatRfc3339Ms(from.unixMs)} to ${formatRfc3339Ms(to.unixMs)}`;
}
