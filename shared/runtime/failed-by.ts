import type { StoreError } from '../ports/connection-store.ts';
import type { Outcome } from './define-function.ts';

/** What the API did not do, and when it wants to be asked again, if it said so. */
export function failedBy({ code, retryAfterMs }: StoreError): Outcome {
  return { outcome: 'failed', reason: code, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
