import { AGGREGATE_FIELD_MANAGER, type ManagedFields } from './connection.ts';

/** Who owns what in the status of a Connection, read off its managedFields. */

type Fields = { readonly [path: string]: Fields | undefined };

/** What connection-aggregate owns beside the tunnels. */
const AGGREGATE_FIELDS = ['f:value', 'f:latency', 'f:conditions'];

function statusOf({ fieldsV1 }: ManagedFields): Fields {
  return (fieldsV1 as Fields | undefined)?.['f:status'] ?? {};
}

/**
 * Managers of a tunnel's entry, or of the aggregate where `interfaceId` is left out, with the fields each owns.
 * The `.` of a list item is the item itself.
 */
export function ownersOf(
  managedFields: readonly ManagedFields[] | undefined,
  interfaceId: string | undefined,
): readonly { readonly manager: string; readonly operation: string; readonly fields: readonly string[] }[] {
  return (managedFields ?? []).flatMap((entry) => {
    const status = statusOf(entry);
    const owned =
      interfaceId === undefined
        ? AGGREGATE_FIELDS.filter((path) => status[path] !== undefined)
        : Object.keys(status['f:tunnels']?.[`k:${JSON.stringify({ interfaceID: interfaceId })}`] ?? {});
    const fields = owned.filter((path) => path !== '.').map((path) => path.replace(/^f:/, ''));
    const { manager = 'unknown', operation = 'unknown' } = entry;
    return owned.length === 0 ? [] : [{ manager, operation, fields }];
  });
}

/** Managers that have no business there, as `kubectl-edit (Update: value, latency)`. */
export function foreignOwners(
  managedFields: readonly ManagedFields[] | undefined,
  interfaceId: string | undefined,
): readonly string[] {
  const rightful = interfaceId ?? AGGREGATE_FIELD_MANAGER;
  return ownersOf(managedFields, interfaceId)
    .filter(({ manager, operation }) => manager !== rightful || operation !== 'Apply')
    .map(({ manager, operation, fields }) => `${manager} (${operation}: ${fields.join(', ') || 'the entry'})`);
}
