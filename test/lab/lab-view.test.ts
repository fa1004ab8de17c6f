import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { labChanges, labTable } from '../../infra/lab/lab-view.ts';
import type { Connection, ConnectionValue } from '../../shared/domain/connection.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';

function connection(name: string, values: readonly ConnectionValue[]): Connection {
  const message = `${values.length} tunnels, and so many words about them that no narrow terminal has room for them all`;
  return {
    metadata: { namespace: 'liqo-tenant-milan', name, uid: 'u', resourceVersion: '1' },
    spec: { type: 'Server', gatewayRef: { apiVersion: 'v1', kind: 'WgGatewayServer', name, namespace: 'n' } },
    status: {
      value: values.includes('Error') ? 'Error' : 'Connected',
      conditions: [{ type: 'Ready', status: 'True', reason: 'R', message, lastTransitionTime: '2026-01-01T00:00:00Z' }],
      tunnels: values.map((value, index) => ({
        ...{ interfaceID: interfaceIdOf(index), value, lastTransitionTime: '2026-01-01T00:00:00Z' },
        ...(value === 'Error' ? { reason: 'Lost', message: 'no PONG since 2026-01-01T00:00:00.000Z' } : {}),
      })),
    },
  };
}

const linesOf = (text: string) => stripVTControlCharacters(text).split('\n');

describe('the table of a lab', () => {
  it.each([
    [80, 18, 4],
    [40, 10, 16],
    [200, 60, 64],
  ])('fits a terminal of %i columns and %i rows with %i tunnels', (columns, rows, tunnels) => {
    const values = Array.from(
      { length: tunnels },
      (_, index) => (index === 1 ? 'Error' : 'Connected') as ConnectionValue,
    );
    const table = labTable([connection('a', values), connection('b', values)], { columns, rows, isColoured: true });
    const lines = linesOf(table);
    expect(lines.length).toBeLessThanOrEqual(rows);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(columns);
    expect(lines.filter((line) => /liqo-tunnel1 +Error/.test(line))).toHaveLength(2);
  });

  it('has no colours where none are wanted', () => {
    const table = labTable([connection('a', ['Connected'])], { columns: 80, rows: 20, isColoured: false });
    expect(table).toBe(stripVTControlCharacters(table));
  });

  it('counts the tunnels that are well where they do not fit', () => {
    const values = Array.from({ length: 64 }, () => 'Connected' as const);
    const table = labTable([connection('a', values)], { columns: 80, rows: 20, isColoured: false });
    expect(table).toContain('… and 64 more of 64');
  });
});

describe('the lines of a lab', () => {
  it('tell what changed, and nothing twice', () => {
    const before = [connection('a', ['Connected', 'Connected'])];
    const after = [connection('a', ['Connected', 'Error'])];
    expect(labChanges(before, after)).toEqual([
      'liqo-tenant-milan/a liqo-tunnel1 Connected → Error (Lost: no PONG since 2026-01-01T00:00:00.000Z)',
      'liqo-tenant-milan/a Connected → Error',
    ]);
    expect(labChanges(after, after)).toEqual([]);
  });
});
