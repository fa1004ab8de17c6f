import type { FunctionSettings } from './function-settings.ts';

/** What a function made of an event, published before the event is acknowledged. */

export const DECISION_TYPE = 'wg-keepalive.decision.v1';

/** How an event ended. `throttled` covers every event that needed no write. */
export type OutcomeName = 'written' | 'throttled' | 'stale' | 'orphan' | 'invalid' | 'failed';

/** The settings that decide whether an event is written: where they differ, so may the decisions. */
export type JudgedBy = Pick<FunctionSettings, 'updateStatusIntervalMs'>;

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
  /** Of a function that settings make decide otherwise. */
  readonly judgedBy?: JudgedBy;
  /** Changes of value that were told before and never shown, as the API refused them. */
  readonly superseded?: number;
  /** Throttled events since the decision before this one. */
  readonly throttledSince?: number;
  /** RFC 3339; a label. */
  readonly decidedAt: string;
};

const name = { type: 'string', minLength: 1, maxLength: 253 } as const;

/** JSON Schema (draft 2020-12) of {@link Decision}; unknown fields are ignored. */
export const decisionSchema = {
  $id: DECISION_TYPE,
  type: 'object',
  properties: {
    function: name,
    namespace: name,
    connection: name,
    interfaceId: { type: 'string', minLength: 1, maxLength: 128 },
    eventId: { type: 'string', minLength: 1 },
    outcome: { enum: ['written', 'throttled', 'stale', 'orphan', 'invalid', 'failed'] satisfies OutcomeName[] },
    reason: { type: 'string' },
    before: { type: ['object', 'null'] },
    after: { type: ['object', 'null'] },
    judgedBy: { type: 'object', properties: { updateStatusIntervalMs: { type: 'number', minimum: 0 } } },
    superseded: { type: 'integer', minimum: 0 },
    throttledSince: { type: 'integer', minimum: 0 },
    decidedAt: { type: 'string' },
  },
  required: ['function', 'namespace', 'connection', 'eventId', 'outcome', 'reason', 'decidedAt'],
} as const;
