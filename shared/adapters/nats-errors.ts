import { JetStreamApiError } from '@nats-io/jetstream';
import { errors } from 'nats';
import type { BusErrorCode } from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';

/** @see https://github.com/nats-io/nats-server/blob/main/server/errors.json */
const WRONG_LAST_SEQUENCE = [10071, 10164];
export const STREAM_NOT_FOUND = 10059;
export const CONSUMER_NOT_FOUND = 10014;
/** Somebody else made it, with another configuration. */
export const CONSUMER_EXISTS = [10013, 10148] as const;

/** Of a message or its headers, by the stream's limit or by the server's own. */
const MESSAGE_TOO_LARGE = [10054, 10097];
const STORE_FAILED = 10077;
/** Account, memory and storage limits; maximum bytes of a stream over the account's. */
const RESOURCES_EXHAUSTED = [10002, 10023, 10028, 10047, 10122];

/** An error as JetStream answers it. */
export type ApiFault = { readonly code: number; readonly err_code: number; readonly description: string };

/** Whether the stream, or the subject, is not where the publisher expected it: nothing was stored. */
export function isWrongLastSequence({ err_code }: ApiFault): boolean {
  return WRONG_LAST_SEQUENCE.includes(err_code);
}

/** What the fault means for the caller, and the server's words in `context`. */
export function busErrorOfFault(context: string, fault: ApiFault): BusError {
  return new BusError(codeOf(fault), `${context}: ${fault.description} (${fault.err_code})`);
}

/** Any error of the client as a {@link BusError}. */
export function busErrorOf(context: string, error: unknown): BusError {
  if (error instanceof BusError) return error;
  if (error instanceof JetStreamApiError) return busErrorOfFault(context, error.apiError());
  const { message } = error as Error;
  return new BusError(codeOfClientError(error), `${context}: ${message}`, { cause: error });
}

export function noResponders(what: string): BusError {
  return new BusError('unavailable', `nothing answers for ${what}: no leader now, or run \`wg-keepalive setup\``);
}

function codeOf({ code, err_code, description }: ApiFault): BusErrorCode {
  if (RESOURCES_EXHAUSTED.includes(err_code)) return 'full';
  if (MESSAGE_TOO_LARGE.includes(err_code)) return 'too-large';
  if (err_code === STORE_FAILED) return /maximum|limit/.test(description) ? 'full' : 'unavailable';
  if (code >= 500 || code === 429 || code === 409) return 'unavailable';
  return code === 404 ? 'not-found' : 'denied';
}

function codeOfClientError(error: unknown): BusErrorCode {
  if (error instanceof errors.TimeoutError || (error as Error).cause instanceof errors.TimeoutError) return 'timeout';
  if (error instanceof errors.InvalidArgumentError) return /max_payload/.test(error.message) ? 'too-large' : 'denied';
  if (error instanceof errors.PermissionViolationError || error instanceof errors.InvalidSubjectError) return 'denied';
  return 'unavailable';
}

/** Whether the server answered with one of these error codes. */
export function isFault(error: unknown, ...codes: readonly number[]): error is JetStreamApiError {
  return error instanceof JetStreamApiError && codes.includes(error.code);
}
