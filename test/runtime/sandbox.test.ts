import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import type { AggregateStatus, ConnectionStatus, TunnelEntry } from '../../shared/domain/connection.ts';
import type { ConnectionStore } from '../../shared/ports/connection-store.ts';
import { pacer } from '../../shared/runtime/pace.ts';
import { sandbox } from '../../shared/runtime/sandbox-ports.ts';
import { SandboxStore } from '../../shared/runtime/sandbox-store.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const REF = { namespace: 'ns', name: 'gw-a' };
const NOW = '2026-01-01T00:00:00Z';

function embedded(): ConnectionStore {
  const cluster = new EmbeddedKubernetes({ clock: new VirtualClock(), newUid: () => 'uid' });
  cluster.create({
    metadata: { ...REF, labels: {}, ownerReferences: [] },
    spec: { type: 'Server', gatewayRef: { apiVersion: 'v', kind: 'WgGatewayServer', name: 'a', namespace: 'ns' } },
  });
  return new EmbeddedConnectionStore(cluster);
}

function sandboxed(): ConnectionStore {
  const store = new SandboxStore();
  store.create(REF, 'uid', NOW);
  return store;
}

const value = fc.constantFrom('Connected', 'Connecting', 'Error');
const latency = fc.constant({ value: '1ms', timestamp: NOW });
const entry: fc.Arbitrary<TunnelEntry> = fc.record(
  {
    interfaceID: fc.constantFrom('liqo-tunnel', 'liqo-tunnel1', 'liqo-tunnel2'),
    ...{ value, latency, reason: fc.constantFrom('Lost', 'Suspect'), lastTransitionTime: fc.constant(NOW) },
  },
  { requiredKeys: ['interfaceID', 'value'] },
);
const aggregate: fc.Arbitrary<AggregateStatus> = fc.record(
  {
    value,
    latency,
    conditions: fc.constant([{ type: 'Ready', status: 'True', reason: 'R', message: 'm', lastTransitionTime: NOW }]),
  },
  { requiredKeys: ['value', 'conditions'] },
);
type Step = (store: ConnectionStore) => Promise<unknown>;
const steps: fc.Arbitrary<Step> = fc.oneof(
  entry.map(
    (one): Step =>
      (store) =>
        store.applyTunnel(REF, one),
  ),
  entry.map(
    ({ interfaceID }): Step =>
      (store) =>
        store.removeTunnel(REF, interfaceID),
  ),
  aggregate.map(
    (one): Step =>
      (store) =>
        store.applyAggregate(REF, one),
  ),
);

/** An absent list and an empty one are the same to everybody who reads them; so is the order of entries. */
function normal(status: ConnectionStatus = {}) {
  const tunnels = [...(status.tunnels ?? [])].sort((a, b) => (a.interfaceID < b.interfaceID ? -1 : 1));
  return { ...status, tunnels };
}

describe('the API of the sandbox', () => {
  it('shows what the embedded one shows after the same writes by their rightful managers', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { maxLength: 25 }), async (all) => {
        const [fast, faithful] = [sandboxed(), embedded()];
        for (const step of all) {
          await step(fast);
          await step(faithful);
          const [a, b] = [await fast.get(REF), await faithful.get(REF)];
          expect(normal(a?.status)).toEqual(normal(b?.status));
        }
      }),
    );
  });

  it('refuses a write on an object that has moved on, or that is not there', async () => {
    const store = sandboxed();
    const first = await store.applyTunnel(REF, { interfaceID: 'liqo-tunnel', value: 'Connected' });
    const { resourceVersion } = first.metadata;
    const second = await store.applyTunnel(REF, { interfaceID: 'liqo-tunnel', value: 'Error' }, { resourceVersion });
    expect(second.metadata.resourceVersion).not.toBe(resourceVersion);
    await expect(store.removeTunnel(REF, 'liqo-tunnel', { resourceVersion })).rejects.toMatchObject({
      code: 'conflict',
      status: 409,
    });
    await expect(store.removeTunnel({ ...REF, name: 'x' }, 'y')).rejects.toMatchObject({
      code: 'not-found',
      status: 404,
    });
  });
});

describe('the ports of the sandbox', () => {
  it('reach nothing outside', async () => {
    const { ports } = sandbox();
    const message = { subject: 's', headers: {}, data: new Uint8Array() };
    expect(() => ports.bus.publish(message)).toThrow('a replay has no bus to publish to');
    const nothing = { filter: 's', sequence: 0 };
    expect(() => ports.bus.publishAfter(message, nothing)).toThrow('a replay has no bus to publish to');
    expect(() => ports.bus.schedule(message, { dueAtUnixMs: 0, target: 't' })).toThrow('a replay has no timer');
    expect(() => ports.clock.after(1, () => {})).toThrow('a replay has no timer');
    await expect(
      ports.connections.ensure({ metadata: { ...REF, labels: {}, ownerReferences: [] }, spec: {} as never }),
    ).rejects.toMatchObject({ code: 'forbidden' });
  });

  it('have the time of the events, which never goes back', () => {
    const { ports, setTime } = sandbox();
    setTime(1_000);
    setTime(400);
    expect(ports.clock.monotonicMs()).toBe(1_000);
    expect(ports.clock.unixMs()).toBe(1_000);
  });
});

describe('the pace of a replay', () => {
  it('waits for each event as long as it took, divided by the speed, and makes up for being late', async () => {
    const clock = new VirtualClock();
    const pace = pacer(clock, 2);
    const never = new AbortController().signal;
    const times: number[] = [];
    const running = (async () => {
      for (const at of [5_000, 6_000, 6_000, 9_000, 9_100, 12_000]) {
        await pace(at, never);
        times.push(clock.monotonicMs());
        if (at === 6_000 && times.length === 3) await clock.sleep(1_600);
      }
    })();
    await clock.advance(10_000);
    await running;
    expect(times).toEqual([0, 500, 500, 2_100, 2_100, 3_500]);
  });

  it('does not wait at maximum speed, nor once it is stopped', async () => {
    const clock = new VirtualClock();
    expect(pacer(clock, Number.POSITIVE_INFINITY)(1e12, new AbortController().signal)).toBeUndefined();
    const pace = pacer(clock, 1);
    pace(0, AbortSignal.abort());
    await pace(1e9, AbortSignal.abort());
    expect(clock.monotonicMs()).toBe(0);
  });
});
