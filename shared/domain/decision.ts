/** What a function made of an event, published before the event is acknowledged. */

export const DECISION_TYPE = 'wg-keepalive.decision.v1';

/** How an event ended. `throttled` covers every event that needed no write. */
export type OutcomeName = 'written' | 'throttled' | 'stale' | 'orphan' | 'invalid' | 'failed';

export type Decision = {
  readonly function: string;
  readonly namespace: string;
  readonly connection: string;
  readonly interfaceId?: string;
  readonly eventId: string;
  readonly outcome: OutcomeName;
  readonly reason: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** Throttled events since the decision before this one. */
  readonly throttledSince?: number;
  /** RFC 3339; a label. */
  readonly decidedAt: string;
};
