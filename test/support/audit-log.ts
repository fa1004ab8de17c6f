import { readFile } from 'node:fs/promises';
import type { ConnectionStatus } from '../../shared/domain/connection.ts';
import { connectionKey } from '../../shared/domain/connection.ts';

/** A line of the API server's audit log, as far as writes of Connections need it. */
type AuditEvent = {
  readonly stage: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly user?: { readonly username?: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: unknown;
};

/** A write of a Connection that the API server answered. */
export type ConnectionWrite = {
  readonly verb: string;
  /** As the API server knows it: `admin`, `system:serviceaccount:NAMESPACE:NAME`. */
  readonly user: string;
  /** `NAMESPACE/NAME`. */
  readonly connection: string;
  readonly subresource: string | undefined;
  readonly fieldManager: string | null;
  readonly code: number;
  /** What was sent as the status; of a JSON patch, nothing. */
  readonly status: ConnectionStatus | undefined;
  /** A JSON patch's operations, or `undefined` for any other write. */
  readonly operations: readonly { readonly op: string; readonly path: string }[] | undefined;
};

/** Every write of a Connection so far, in the order of the answers. */
export async function connectionWrites(auditLogFile: string): Promise<ConnectionWrite[]> {
  const lines = (await readFile(auditLogFile, 'utf8')).split('\n');
  return lines
    .slice(0, -1) // what has no end yet is still being written
    .map((line) => JSON.parse(line) as AuditEvent)
    .filter(({ stage, verb, objectRef }) => {
      const isWrite = ['create', 'update', 'patch', 'delete'].includes(verb);
      return isWrite && stage === 'ResponseComplete' && objectRef?.resource === 'connections';
    })
    .map(({ verb, user, requestURI, objectRef = {}, responseStatus, requestObject }) => ({
      verb,
      user: user?.username ?? '',
      connection: connectionKey({ namespace: objectRef.namespace ?? '', name: objectRef.name ?? '' }),
      subresource: objectRef.subresource,
      fieldManager: new URL(requestURI, 'https://api').searchParams.get('fieldManager'),
      code: responseStatus?.code ?? 0,
      status: (requestObject as { readonly status?: ConnectionStatus } | undefined)?.status,
      operations: Array.isArray(requestObject) ? requestObject : undefined,
    }));
}
