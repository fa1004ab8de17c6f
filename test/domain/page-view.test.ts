import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
// @ts-expect-error: the page is JavaScript, checked on its own (infra/ui/tsconfig.json)
import { Model } from '../../infra/ui/model.js';
import type { Connection, ConnectionValue, TunnelEntry } from '../../shared/domain/connection.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import { MAX_DECISIONS, PageView } from '../../shared/domain/page-view.ts';
import { MAX_BINS, MAX_SEGMENTS } from '../../shared/domain/tunnel-series.ts';

const START_MS = Date.UTC(2026, 0, 1);
const REF = { namespace: 'a', name: 'gw-a' };

function connection(tunnels: readonly TunnelEntry[], more: { uid?: string; name?: string } = {}): Connection {
  const { uid = 'uid', name = REF.name } = more;
  return {
    metadata: { ...REF, name, uid, resourceVersion: '1', labels: { 'liqo.io/remote-cluster-id': 'b' } },
    spec: { type: 'Server', gatewayRef: { apiVersion: 'v1', kind: 'WgGatewayServer', name: 'a', namespace: 'a' } },
    status: {
      value: tunnels.some(({ value }) => value === 'Error') ? 'Error' : 'Connected',
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'AllTunnelsConnected',
          message: 'all',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
      tunnels,
    },
  };
}

function tunnel(interfaceID: string, value: ConnectionValue = 'Connected', lastTransitionTime?: string): TunnelEntry {
  return { interfaceID, value, ...(lastTransitionTime && { lastTransitionTime }) };
}

function observation(kind: Observation['kind'], more: Partial<Observation> = {}): Observation {
  return {
    ...{ namespace: REF.namespace, connection: REF.name, interfaceId: 't', gatewayEpoch: 1, sequence: 1 },
    ...{ monotonicMs: 0, kind, value: 'Connected', observedAt: '2026-01-01T00:00:00Z' },
    ...(kind === 'pong' && { rttNs: 2_000_000 }),
    ...more,
  };
}

function decision(more: Partial<Decision> = {}): Decision {
  return {
    ...{ function: 'tunnel-status', namespace: 'a', connection: 'gw-a', interfaceId: 't', eventId: 'e' },
    ...{ outcome: 'written', reason: 'Transition', decidedAt: '2026-01-01T00:00:00Z', ...more },
  };
}

describe('what the page is told', () => {
  it('is everything at first: Connections in words, tunnels, since when', () => {
    const view = new PageView();
    view.setConnection(connection([tunnel('t', 'Error', '2026-01-01T00:00:01.5Z')]), START_MS + 5_000);
    view.setDeadLetters(3);
    expect(view.since(0)).toEqual({
      revision: view.revision,
      reset: true,
      connections: [
        {
          ...{ key: 'a/gw-a', remoteClusterId: 'b', type: 'Server', value: 'Error' },
          ...{ reason: 'AllTunnelsConnected', message: 'all', interfaces: ['t'] },
          tunnels: [{ interfaceId: 't', value: 'Error', since: '2026-01-01T00:00:01.5Z' }],
        },
      ],
      series: [
        { connection: 'a/gw-a', interfaceId: 't', isNew: true, bins: [], segments: [[START_MS + 1_500, 'Error']] },
      ],
      deadLetters: 3,
    });
  });

  it('is only what has changed after that, and nothing where nothing has', () => {
    const view = new PageView();
    view.setConnection(connection([tunnel('t'), tunnel('u')]), START_MS);
    const { revision } = view.since(0);
    view.setConnection(connection([tunnel('t'), tunnel('u')]), START_MS + 1);
    expect(view.since(revision)).toEqual({ revision });
    view.setConnection(connection([tunnel('t'), { ...tunnel('u'), reason: 'Suspect' }]), START_MS + 2);
    expect(view.since(revision).connections).toEqual([
      expect.objectContaining({
        key: 'a/gw-a',
        tunnels: [{ interfaceId: 'u', value: 'Connected', reason: 'Suspect' }],
      }),
    ]);
    expect(view.since(revision).connections?.[0]).not.toHaveProperty('interfaces');
  });

  it('counts PINGs and losses by the second, coalesced ones too, with the mean of the round trips', () => {
    const view = new PageView();
    view.setConnection(connection([tunnel('t')]), START_MS);
    const { revision } = view.since(0);
    view.observe(observation('pong', { rttNs: 1_000_000 }), START_MS + 100);
    view.observe(observation('pong', { rttNs: 4_000_000, coalesced: 1 }), START_MS + 200);
    view.observe(observation('miss'), START_MS + 900);
    view.observe(observation('down', { value: 'Error' }), START_MS + 1_100);
    view.observe(observation('unmonitored'), START_MS + 1_200);
    const second = START_MS / 1_000;
    expect(view.since(revision).series).toEqual([
      {
        connection: 'a/gw-a',
        interfaceId: 't',
        bins: [
          [second, 4, 1, 3_000],
          [second + 1, 1, 1, null],
        ],
      },
    ]);
  });

  it('never goes back in time, whatever order messages come in', () => {
    const view = new PageView();
    view.setConnection(connection([tunnel('t')]), START_MS);
    view.observe(observation('pong'), START_MS + 5_000);
    view.observe(observation('miss'), START_MS + 1_000);
    const [series] = view.since(0).series ?? [];
    expect(series?.bins).toEqual([[START_MS / 1_000 + 5, 2, 1, 2_000]]);
  });

  it('keeps nothing of a tunnel that no Connection lists, nor of one that is listed no more', () => {
    const view = new PageView();
    view.observe(observation('pong'), START_MS);
    expect(view.since(0)).toEqual({ revision: 0, reset: true });
    view.setConnection(connection([tunnel('t')]), START_MS);
    view.observe(observation('pong'), START_MS);
    view.setConnection(connection([]), START_MS);
    expect(view.since(0).series).toBeUndefined();
    view.setConnection(connection([tunnel('t')]), START_MS + 9_000);
    expect(view.since(0).series).toEqual([
      { connection: 'a/gw-a', interfaceId: 't', isNew: true, bins: [], segments: [[START_MS + 9_000, 'Connected']] },
    ]);
  });

  it('starts anew for a namesake', () => {
    const view = new PageView();
    view.setConnection(connection([tunnel('t')]), START_MS);
    view.observe(observation('pong'), START_MS);
    view.setConnection(connection([tunnel('t')], { uid: 'other' }), START_MS + 1);
    expect(view.since(0).series?.[0]?.bins).toEqual([]);
  });

  it('says what a decision changed, and how many events needed none', () => {
    const view = new PageView();
    view.decide(
      decision({
        before: { value: 'Connecting' },
        after: { value: 'Connected', latency: { value: '1ms' } },
        throttledSince: 4,
      }),
      START_MS,
    );
    view.decide(decision({ interfaceId: undefined, outcome: 'failed', reason: 'Conflict' } as object), START_MS + 1);
    expect(view.since(0).decisions).toEqual([
      {
        ...{ atUnixMs: START_MS, function: 'tunnel-status', connection: 'a/gw-a', interfaceId: 't' },
        ...{ outcome: 'written', reason: 'Transition', throttled: 4, change: 'Connecting → Connected', latency: '1ms' },
      },
      {
        ...{ atUnixMs: START_MS + 1, function: 'tunnel-status', connection: 'a/gw-a' },
        ...{ outcome: 'failed', reason: 'Conflict', throttled: 0 },
      },
    ]);
  });

  it('is bounded, however long it goes on', () => {
    const view = new PageView();
    for (let second = 0; second < 2_000; second++) {
      view.setConnection(connection([tunnel('t', second % 2 ? 'Connected' : 'Error')]), START_MS + second * 1_000);
      view.observe(observation('pong'), START_MS + second * 1_000);
      view.decide(decision(), START_MS + second * 1_000);
      view.removeConnection({ namespace: 'x', name: 'x' });
    }
    const { series = [], decisions = [] } = view.since(0);
    expect(series[0]?.bins.length).toBe(MAX_BINS);
    expect(series[0]?.segments?.length).toBe(MAX_SEGMENTS);
    expect(decisions.length).toBe(MAX_DECISIONS);
  });

  it('is everything again for a page that is from before a restart, or missed too much of what is gone', () => {
    const view = new PageView();
    view.setConnection(connection([tunnel('t')]), START_MS);
    const { revision } = view.since(0);
    expect(view.since(revision + 100).reset).toBe(true);
    for (let index = 0; index < 300; index++) {
      const name = `gw-${index}`;
      view.setConnection(connection([], { name }), START_MS);
      view.removeConnection({ namespace: 'a', name });
    }
    expect(view.since(revision)).toMatchObject({
      reset: true,
      connections: [expect.objectContaining({ key: 'a/gw-a' })],
    });
  });
});

/** All that a page would show. */
function shown(model: Model): unknown {
  const connections = [...model.connections].map(([key, { head, interfaces, tunnels, series }]) => {
    const { interfaces: _, tunnels: __, ...rest } = head;
    const listed = interfaces.map((id: string) => [
      id,
      tunnels.get(id),
      series.get(id)?.bins ?? [],
      series.get(id)?.segments,
    ]);
    return [key, rest, listed];
  });
  connections.sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
  return { connections, decisions: model.decisions, deadLetters: model.deadLetters, health: model.health };
}

describe('a page', () => {
  const name = fc.constantFrom('gw-a', 'gw-b', 'gw-c');
  const interfaceId = fc.constantFrom('t', 'u', 'v');
  const value = fc.constantFrom<ConnectionValue>('Connected', 'Connecting', 'Error');
  type Step = (view: PageView, atUnixMs: number) => void;
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.tuple(name, fc.uniqueArray(interfaceId), value, fc.constantFrom('1', '2')).map(
      ([one, ids, current, uid]): Step =>
        (view, at) =>
          view.setConnection(
            connection(
              ids.map((id) => tunnel(id, current)),
              { name: one, uid },
            ),
            at,
          ),
    ),
    name.map(
      (one): Step =>
        (view) =>
          view.removeConnection({ namespace: 'a', name: one }),
    ),
    fc.tuple(name, interfaceId, fc.constantFrom('pong', 'miss', 'down')).map(
      ([one, id, kind]): Step =>
        (view, at) =>
          view.observe(observation(kind as 'pong', { connection: one, interfaceId: id }), at),
    ),
    fc.integer({ min: 0, max: 3 }).map(
      (count): Step =>
        (view) =>
          view.setDeadLetters(count),
    ),
    fc.boolean().map(
      (ok): Step =>
        (view) =>
          view.setHealth([{ name: 'NATS', ok }]),
    ),
    fc.constant<Step>((view, at) => view.decide(decision(), at)),
  );

  it('that is told now and then shows the same as one that is told each step, and as one that comes last', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(step, fc.boolean(), fc.integer({ min: 0, max: 1_500 })), { maxLength: 80 }),
        (steps) => {
          const view = new PageView();
          const diligent = { model: new Model(), revision: 0 };
          const lazy = { model: new Model(), revision: 0 };
          const tell = (page: typeof lazy) => {
            const patch = structuredClone(view.since(page.revision));
            page.model.apply(patch);
            page.revision = patch.revision;
          };
          let atUnixMs = START_MS;
          for (const [act, isRead, afterMs] of steps) {
            atUnixMs += afterMs;
            act(view, atUnixMs);
            tell(diligent);
            if (isRead) tell(lazy);
          }
          tell(lazy);
          const late = { model: new Model(), revision: 0 };
          tell(late);
          expect(shown(lazy.model)).toEqual(shown(diligent.model));
          expect(shown(late.model)).toEqual(shown(diligent.model));
        },
      ),
      { numRuns: 1_000 },
    );
  });
});
