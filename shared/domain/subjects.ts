import type { ConnectionRef } from './connection.ts';
import { encodeToken } from './subject-token.ts';

/** Subjects as published; where a stream stores them elsewhere, the topology says so. */

function tokens(ref: ConnectionRef): string {
  return `${encodeToken(ref.namespace)}.${encodeToken(ref.name)}`;
}

export const observationSubject = (ref: ConnectionRef, interfaceId: string): string =>
  `keepalive.${tokens(ref)}.${encodeToken(interfaceId)}`;

export const gatewaySubject = (ref: ConnectionRef): string => `gateways.${tokens(ref)}`;

export const changeSubject = (kind: string, ref: ConnectionRef): string => `changes.${kind}.${tokens(ref)}`;

export const timerSubject = (what: string, ref: ConnectionRef): string => `timers.${what}.${tokens(ref)}`;

export const dueSubject = (what: string, ref: ConnectionRef): string => `due.${what}.${tokens(ref)}`;

export const decisionSubject = (ref: ConnectionRef): string => `decisions.${tokens(ref)}`;

export const deadLetterSubject = (functionName: string): string => `dead.${functionName}`;

/** Not of any stream: see `Notices`. */
export const replicaSubject = (functionName: string): string => `replicas.${encodeToken(functionName)}`;

/** Key of a tunnel in the KV bucket `tunnel-state`. */
export const tunnelStateKey = (ref: ConnectionRef, interfaceId: string): string =>
  `${tokens(ref)}.${encodeToken(interfaceId)}`;

/** Key of what connection-ensure keeps of a tunnel from before it says `unlisted` until that is over, in the same bucket. */
export const unlistingKey = (ref: ConnectionRef, interfaceId: string): string =>
  `${tunnelStateKey(ref, interfaceId)}.unlisting`;

/** Key of what connection-ensure keeps of a Connection (highest epoch, accepted announcement) in the same bucket. */
export const connectionStateKey = tokens;

/** Every stored observation of a Connection, whatever its partition and interface. */
export const observationsFilter = (ref: ConnectionRef): string => `observations.*.${tokens(ref)}.*`;
