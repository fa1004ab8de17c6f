import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aggregate, aggregateValue, sameAggregate } from '../../shared/domain/aggregate.ts';
import type { TunnelEntry } from '../../shared/domain/connection.ts';
import { formatLatency, parseLatency } from '../../shared/domain/latency.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';

const times = fc.integer({ min: 0, max: 1e6 }).map((ms) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString());
const entries: fc.Arbitrary<TunnelEntry[]> = fc
  .array(
    fc.record({
      value: fc.constantFrom('Connected' as const, 'Connecting' as const, 'Error' as const),
      rttNs: fc.option(fc.integer({ min: 1_000, max: 60_000_000_000 })),
      timestamp: times,
      lastTransitionTime: times,
      reason: fc.option(fc.constantFrom('NoPong', 'GatewaySilent')),
    }),
    { maxLength: 8 },
  )
  .map((list) =>
    list.map(({ value, rttNs, timestamp, lastTransitionTime, reason }, index) => ({
      interfaceID: interfaceIdOf(index),
      value,
      lastTransitionTime,
      ...(value === 'Connected' && rttNs !== null && { latency: { value: formatLatency(rttNs), timestamp } }),
      ...(reason !== null && { reason }),
    })),
  );

const METADATA = { creationTimestamp: '2026-01-01T00:00:00Z' };
const of = (tunnels: readonly TunnelEntry[]) => aggregate(tunnels, undefined, METADATA);
const tunnel = (index: number, value: TunnelEntry['value'], more: Partial<TunnelEntry> = {}): TunnelEntry => ({
  interfaceID: interfaceIdOf(index),
  value,
  lastTransitionTime: '2026-01-01T00:00:05Z',
  ...more,
});

describe('the status of a Connection from its tunnels', () => {
  it('is Error, else Connecting, else Connected, in any order of the tunnels', () => {
    fc.assert(
      fc.property(entries, (tunnels) => {
        const values = tunnels.map(({ value }) => value);
        const expected = values.includes('Error')
          ? 'Error'
          : values.length === 0 || values.includes('Connecting')
            ? 'Connecting'
            : 'Connected';
        expect(aggregateValue(tunnels)).toBe(expected);
        expect(of(tunnels.toReversed())).toMatchObject({ value: expected });
      }),
    );
  });

  it('has the mean latency of the tunnels that have one, only while Connected', () => {
    fc.assert(
      fc.property(entries, (tunnels) => {
        const { value, latency } = of(tunnels);
        const measured = tunnels.flatMap((entry) => (entry.latency === undefined ? [] : [entry.latency]));
        if (value !== 'Connected' || measured.length === 0) {
          expect(latency).toBeUndefined();
          return;
        }
        const mean = measured.reduce((sum, one) => sum + (parseLatency(one.value) ?? 0), 0) / measured.length;
        expect(latency?.value).toBe(formatLatency(mean));
        expect(latency?.timestamp).toBe(
          measured
            .map(({ timestamp }) => timestamp)
            .toSorted()
            .at(-1),
        );
      }),
    );
  });

  it.each([
    ['without a time', { value: '9ms' }],
    ['whose time is null', { value: '9ms', timestamp: null }],
    ['of zero', { value: '0s', timestamp: '2026-01-01T00:00:00Z' }],
    ['without a value', { timestamp: '2026-01-01T00:00:00Z' }],
  ])('passes over a latency %s, as somebody may have edited it', (_what, latency) => {
    const edited = { interfaceID: 'a', value: 'Connected', latency } as unknown as TunnelEntry;
    const measured = { value: '1ms', timestamp: '2026-01-01T00:00:01Z' };
    const sound: TunnelEntry = { interfaceID: 'b', value: 'Connected', latency: measured };
    expect(of([edited]).latency).toBeUndefined();
    expect(of([edited, sound]).latency).toEqual(measured);
    expect(of([sound, edited]).latency).toEqual(measured);
  });

  it('is a fixed point: judged again with what was written, nothing is to be written', () => {
    fc.assert(
      fc.property(entries, entries, (before, after) => {
        const first = of(before);
        const second = aggregate(after, first, METADATA);
        expect(sameAggregate(second, aggregate(after, second, METADATA))).toBe(true);
        expect(sameAggregate(undefined, first)).toBe(false);
      }),
    );
  });

  it('keeps the instant of the Ready condition while its status stays, else takes the newest of the tunnels', () => {
    fc.assert(
      fc.property(entries, entries, (before, after) => {
        const first = of(before).conditions[0];
        const second = aggregate(after, of(before), METADATA).conditions[0];
        const newest = after
          .map(({ lastTransitionTime }) => lastTransitionTime)
          .toSorted()
          .at(-1);
        expect(second?.lastTransitionTime).toBe(
          second?.status === first?.status ? first?.lastTransitionTime : (newest ?? METADATA.creationTimestamp),
        );
      }),
    );
  });

  it.each<readonly [string, readonly TunnelEntry[], string, string]>([
    ['no tunnels', [], 'NoTunnels', 'the Connection lists no tunnel'],
    ['one good tunnel', [tunnel(0, 'Connected')], 'AllTunnelsConnected', 'the tunnel is Connected'],
    [
      'one bad of two',
      [tunnel(0, 'Connected'), tunnel(1, 'Error', { reason: 'NoPong' })],
      'TunnelsFailed',
      '1 of 2 tunnels failed (its port or path): liqo-tunnel1 Error NoPong since 2026-01-01T00:00:05Z',
    ],
    [
      'all bad',
      [tunnel(0, 'Error'), tunnel(1, 'Error')],
      'AllTunnelsFailed',
      'all 2 tunnels failed (gateway, node or underlay): liqo-tunnel Error since 2026-01-01T00:00:05Z; liqo-tunnel1 Error since 2026-01-01T00:00:05Z',
    ],
    [
      'one that waits',
      [tunnel(0, 'Connected'), tunnel(1, 'Connecting')],
      'TunnelsConnecting',
      '1 of 2 tunnels not yet Connected: liqo-tunnel1 Connecting since 2026-01-01T00:00:05Z',
    ],
  ])('says what %s means', (_, tunnels, reason, message) => {
    expect(of(tunnels).conditions).toMatchObject([{ type: 'Ready', reason, message }]);
  });
});
