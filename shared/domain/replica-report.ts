/** What a replica of a function says of itself every few seconds, to pages; nothing is decided by it. */

export const REPLICA_REPORT_TYPE = 'wg-keepalive.replica.v1';

export type ReplicaReport = {
  readonly function: string;
  /** Its host, and its process where several are there. */
  readonly replica: string;
  /** Time that this report is about: since the one before it. */
  readonly periodMs: number;
  /** Events that it handled in that time. */
  readonly events: number;
  /** How old the oldest of them was when it was handled; absent without events. */
  readonly lagMs?: number;
};

/** JSON Schema (draft 2020-12) of {@link ReplicaReport}; unknown fields are ignored. */
export const replicaReportSchema = {
  $id: REPLICA_REPORT_TYPE,
  type: 'object',
  properties: {
    function: { type: 'string', minLength: 1, maxLength: 128 },
    replica: { type: 'string', minLength: 1, maxLength: 300 },
    periodMs: { type: 'number', exclusiveMinimum: 0 },
    events: { type: 'integer', minimum: 0 },
    lagMs: { type: 'number', minimum: 0 },
  },
  required: ['function', 'replica', 'periodMs', 'events'],
} as const;
