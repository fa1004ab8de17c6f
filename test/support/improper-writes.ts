import { AGGREGATE_FIELD_MANAGER } from '../../shared/domain/connection.ts';
import type { ConnectionWrite } from './audit-log.ts';

const ENSURE = 'connection-ensure';
/** Wrong media type, and what the API server takes for no object of this kind. */
const REFUSED = [415, 422];

/**
 * Writes that are not how the product writes, each as a line (C14): the status by an apply on /status, each entry by the
 * manager of its name and the rest by connection-aggregate; all else by connection-ensure, without a status. No foreign
 * manager may have written, or connection-ensure's JSON patches would be in their place.
 */
export function improperWrites(writes: readonly ConnectionWrite[], interfaceIds: readonly string[]): string[] {
  return writes.flatMap((write) => {
    const fault = faultOf(write, interfaceIds);
    return fault === undefined ? [] : [`${fault}: ${JSON.stringify(write)}`];
  });
}

function faultOf(
  { verb, subresource, fieldManager, code, status = {}, operations }: ConnectionWrite,
  interfaceIds: readonly string[],
): string | undefined {
  if (REFUSED.includes(code)) return `refused with ${code}`;
  if (subresource !== 'status') {
    if (fieldManager !== ENSURE || verb === 'patch') return `not by ${ENSURE}, or a patch`;
    return Object.keys(status).length > 0 ? 'a status beside /status' : undefined;
  }
  if (verb !== 'patch' || operations !== undefined) return 'no apply';
  if (fieldManager === AGGREGATE_FIELD_MANAGER) return 'tunnels' in status ? 'entries of the aggregate' : undefined;
  if (fieldManager === null || !interfaceIds.includes(fieldManager)) return 'by whom?';
  const { tunnels = [], ...others } = status;
  const isOwn = tunnels.length <= 1 && tunnels.every(({ interfaceID }) => interfaceID === fieldManager);
  return isOwn && Object.keys(others).length === 0 ? undefined : 'more than its own entry';
}
