import type { Connection, TunnelEntry } from '../../shared/domain/connection.ts';
import { connectionKey } from '../../shared/domain/connection.ts';

/** What a lab shows on a terminal: a table that is drawn again, or a line for each change. Pure text. */

const COLOURS = { Connected: 32, Connecting: 33, Error: 31 } as const;

export type TableSize = { readonly columns: number; readonly rows: number; readonly isColoured: boolean };

/** The Connections with their tunnels, as one table that fits; where it cannot, tunnels that are well are only counted. */
export function labTable(connections: readonly Connection[], size: TableSize): string {
  if (connections.length === 0) return '  waiting for the gateways …\n';
  const rowsEach = Math.max(2, Math.floor(size.rows / connections.length) - 2);
  return connections.map((connection) => connectionTable(connection, size, rowsEach)).join('\n');
}

function connectionTable({ metadata, status = {} }: Connection, size: TableSize, maxRows: number): string {
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const tunnels = status.tunnels ?? [];
  const faulty = tunnels.filter(({ value }) => value !== 'Connected');
  const shown = tunnels.length <= maxRows ? tunnels : faulty.slice(0, maxRows - 1);
  const hidden = tunnels.length - shown.length;
  return [
    row(connectionKey(metadata), status, ready?.message ?? '', size),
    ...shown.map((tunnel) => row(`  ${tunnel.interfaceID}`, tunnel, why(tunnel), size)),
    ...(hidden > 0 ? [`  … and ${hidden} more of ${tunnels.length}`] : []),
    '',
  ].join('\n');
}

const NAME_COLUMNS = 27;

function row(
  name: string,
  { value, latency }: Pick<TunnelEntry, 'latency'> & { readonly value?: TunnelEntry['value'] },
  text: string,
  { columns, isColoured }: TableSize,
): string {
  const before = `${name.padEnd(NAME_COLUMNS)} `;
  const shown = (value ?? '–').padEnd(10);
  const after = ` ${(latency?.value ?? '–').padStart(9)}  ${text}`.slice(0, Math.max(0, columns - before.length - 10));
  const painted = value === undefined || !isColoured ? shown : `\u001b[${COLOURS[value]}m${shown}\u001b[0m`;
  return `${before}${painted}${after}`.trimEnd();
}

/** The reason first: what does not fit is cut off at the end. */
function why({ reason, message, lastTransitionTime }: TunnelEntry): string {
  const since = lastTransitionTime === undefined ? '' : `since ${lastTransitionTime}`;
  return [reason, message ?? since].filter(Boolean).join(': ');
}

/** One line for each value or reason that differs between two looks at the Connections. */
export function labChanges(before: readonly Connection[], after: readonly Connection[]): readonly string[] {
  return after.flatMap((connection) => {
    const key = connectionKey(connection.metadata);
    const old = before.find(({ metadata }) => connectionKey(metadata) === key);
    const entries = connection.status?.tunnels ?? [];
    const oldEntries = old?.status?.tunnels ?? [];
    const gone = oldEntries.filter(({ interfaceID }) => !entries.some((entry) => entry.interfaceID === interfaceID));
    return [
      ...gone.map(({ interfaceID }) => `${key} ${interfaceID} is no longer listed`),
      ...entries.flatMap((entry) => {
        const oldEntry = oldEntries.find(({ interfaceID }) => interfaceID === entry.interfaceID);
        if (oldEntry?.value === entry.value && oldEntry.reason === entry.reason) return [];
        const latency = entry.latency === undefined ? '' : ` ${entry.latency.value}`;
        const reason =
          entry.reason === undefined ? '' : ` (${[entry.reason, entry.message].filter(Boolean).join(': ')})`;
        return [`${key} ${entry.interfaceID} ${oldEntry?.value ?? 'new'} → ${entry.value}${latency}${reason}`];
      }),
      ...(old?.status?.value === connection.status?.value
        ? []
        : [`${key} ${old?.status?.value ?? 'new'} → ${connection.status?.value ?? 'without a value'}`]),
    ];
  });
}
