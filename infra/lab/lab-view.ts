import type { Connection, TunnelEntry } from '../../shared/domain/connection.ts';
import { connectionKey } from '../../shared/domain/connection.ts';

/** What a lab shows on a terminal: a table that is drawn again, or a line for each change. Pure text. */

const COLOURS = { Connected: 32, Connecting: 33, Error: 31 } as const;

/** The Connections with their tunnels, as one table. */
export function labTable(connections: readonly Connection[]): string {
  if (connections.length === 0) return '  waiting for the gateways …\n';
  return connections.map(connectionTable).join('\n');
}

function connectionTable({ metadata, status = {} }: Connection): string {
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const head = `${connectionKey(metadata).padEnd(30)} ${coloured(status.value)} ${(status.latency?.value ?? '–').padStart(10)}  ${ready?.message ?? ''}`;
  const rows = (status.tunnels ?? []).map(
    (tunnel) =>
      `  ${tunnel.interfaceID.padEnd(28)} ${coloured(tunnel.value)} ${(tunnel.latency?.value ?? '–').padStart(10)}  ${why(tunnel)}`,
  );
  return `${[head, ...rows].map((line) => line.trimEnd()).join('\n')}\n`;
}

function coloured(value: TunnelEntry['value'] | undefined): string {
  const text = (value ?? '–').padEnd(10);
  return value === undefined ? text : `\u001b[${COLOURS[value]}m${text}\u001b[0m`;
}

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
