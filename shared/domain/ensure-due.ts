import { connectionDueContract, connectionTimer } from './connection-due.ts';

/** The timer that brings back a gateway whose Connection is missing and could not, or must not yet, be made. */

export const ENSURE_DUE_TYPE = 'wg-keepalive.ensure-due.v1';
export const ensureDueContract = connectionDueContract(ENSURE_DUE_TYPE);
export const ensureTimerMessage = connectionTimer('ensure', ENSURE_DUE_TYPE, '/functions/connection-ensure');
