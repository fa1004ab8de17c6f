import type { IncomingHttpHeaders } from 'node:http';
import { StoreError, type StoreErrorCode } from '../ports/connection-store.ts';

/** What the API server says in the body of a refusal. */
type Status = {
  readonly message?: string;
  readonly details?: { readonly name?: string; readonly retryAfterSeconds?: number };
};

const CODES: Readonly<Record<number, StoreErrorCode>> = {
  400: 'invalid',
  401: 'forbidden',
  403: 'forbidden',
  404: 'not-found',
  409: 'conflict',
  413: 'invalid',
  415: 'invalid',
  422: 'invalid',
  429: 'busy',
  503: 'busy',
};
const UNDECLARED_FIELD = 'field not declared in schema';
/** Server-Side Apply of what the schema does not take, a number for a string say, is a 500 too. */
const UNTYPED_PATCH = 'failed to create typed patch object';
const MAX_TEXT = 500;

/**
 * The error that a refusal of the API server means to the functions.
 *
 * @param what - method and path
 * @param unixMs - wall clock, for a Retry-After that is a date
 */
export function storeErrorOf(
  what: string,
  response: { readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string },
  unixMs: number,
): StoreError {
  const { status, headers, text } = response;
  const said = statusOf(text);
  const code = codeOf(status, said, text);
  const advice = code === 'schema' ? ' (the CRD is missing or too old: run "wg-keepalive setup")' : '';
  const message = `${what}: ${status} ${said?.message ?? text.slice(0, MAX_TEXT)}${advice}`;
  const retryAfterMs = retryAfterOf(headers['retry-after'], said?.details?.retryAfterSeconds, unixMs);
  return new StoreError(code, message, { status, ...(retryAfterMs !== undefined && { retryAfterMs }) });
}

function codeOf(status: number, said: Status | undefined, text: string): StoreErrorCode {
  if (status === 500 && text.includes(UNDECLARED_FIELD)) return 'schema';
  if (status === 500 && text.includes(UNTYPED_PATCH)) return 'invalid';
  // Where an object is missing, its name is told; where the whole resource is, it is not.
  if (status === 404 && said?.details?.name === undefined) return 'schema';
  return CODES[status] ?? 'unavailable';
}

function statusOf(text: string): Status | undefined {
  try {
    const said = JSON.parse(text) as unknown;
    return typeof said === 'object' && said !== null ? said : undefined;
  } catch {
    return undefined; // a proxy, or a path that the API server does not know, answers in plain text
  }
}

/** Seconds or a date, as RFC 9110 has it. */
function retryAfterOf(header: string | undefined, detail: number | undefined, unixMs: number): number | undefined {
  const seconds = header === undefined ? detail : Number(header);
  if (seconds !== undefined && Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const atUnixMs = Date.parse(header ?? '');
  return Number.isNaN(atUnixMs) ? undefined : Math.max(0, atUnixMs - unixMs);
}
