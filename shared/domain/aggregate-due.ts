import { connectionDueContract, connectionTimer } from './connection-due.ts';

/** The timer that brings back a Connection whose aggregate the API refused. */

export const AGGREGATE_DUE_TYPE = 'wg-keepalive.aggregate-due.v1';
export const aggregateDueContract = connectionDueContract(AGGREGATE_DUE_TYPE);
export const aggregateTimerMessage = connectionTimer(
  'aggregate',
  AGGREGATE_DUE_TYPE,
  '/functions/connection-aggregate',
);
