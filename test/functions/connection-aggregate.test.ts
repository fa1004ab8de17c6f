import { describe, expect, it } from 'vitest';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import type { AggregateStatus, ConnectionRef } from '../../shared/domain/connection.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import { desiredConnection } from '../../shared/domain/tunnel-listing.ts';
import { initialEntry } from '../../shared/domain/tunnel-status.ts';
import { type ConnectionStore, StoreError } from '../../shared/ports/connection-store.ts';
import { FunctionWorld, REF } from '../support/function-world.ts';
import { passingStore } from '../support/passing.ts';

const OTHER: ConnectionRef = { namespace: 'liqo-tenant-milan', name: 'gw-milan' };
const T0 = '2026-01-01T00:00:00Z';

/** A Connection that nobody but the test and connection-aggregate writes to. */
class Bench {
  readonly world = new FunctionWorld();
  readonly store = new EmbeddedConnectionStore(this.world.kubernetes);

  async create(ref = REF, interfaces: readonly string[] = ['liqo-tunnel', 'liqo-tunnel1']): Promise<void> {
    const gateway = { gatewayName: 'x', mode: 'server', remoteClusterId: 'y', interfaces, announcedAt: T0 } as const;
    await this.store.ensure(desiredConnection({ ...gateway, namespace: ref.namespace, connection: ref.name }));
    for (const id of interfaces) await this.store.applyTunnel(ref, initialEntry(id, T0));
  }

  async connect(id: string, ms: number, ref = REF): Promise<void> {
    const latency = { value: `${ms}ms`, timestamp: this.world.now() };
    await this.store.applyTunnel(ref, { interfaceID: id, value: 'Connected', latency, lastTransitionTime: T0 });
  }

  status(ref = REF) {
    return this.world.kubernetes.get(ref)?.status;
  }

  versionOf(ref = REF): string | undefined {
    return this.world.kubernetes.get(ref)?.metadata.resourceVersion;
  }
}

/** Counts the aggregate's writes, and lets `before` delay or refuse them. */
function counted(before: (ref: ConnectionRef, status: AggregateStatus) => Promise<void> = async () => {}) {
  const writes: AggregateStatus[] = [];
  const connections = (store: ConnectionStore): ConnectionStore => ({
    ...passingStore(store),
    async applyAggregate(ref, status, options) {
      await before(ref, status);
      const written = await store.applyAggregate(ref, status, options);
      writes.push(status);
      return written;
    },
  });
  return { writes, connections };
}

/** A Connection of eight tunnels that all are Connected, by 1 ms; nothing written since counts. */
async function eightConnected() {
  const bench = new Bench();
  const { writes, connections } = counted();
  const ids = Array.from({ length: 8 }, (_, index) => interfaceIdOf(index));
  bench.world.start('connection-watch');
  bench.world.start('connection-aggregate', { connections });
  await bench.create(REF, ids);
  for (const id of ids) await bench.connect(id, 1);
  await bench.world.clock.advance(1_000);
  writes.length = 0;
  return { bench, writes, ids };
}

describe('connection-aggregate', () => {
  it('follows every change of the tunnels, by whomever, and of its own fields', async () => {
    const bench = new Bench();
    bench.world.start('connection-watch');
    bench.world.start('connection-aggregate');
    await bench.create();
    await bench.world.clock.advance(10);
    expect(bench.status()).toMatchObject({ value: 'Connecting', conditions: [{ reason: 'TunnelsConnecting' }] });

    await bench.connect('liqo-tunnel', 1);
    await bench.connect('liqo-tunnel1', 3);
    await bench.world.clock.advance(10);
    expect(bench.status()).toMatchObject({ value: 'Connected', latency: { value: '2ms' } });

    bench.world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({
      ...status,
      tunnels: (status.tunnels ?? []).slice(0, 1),
    }));
    await bench.world.clock.advance(1_000);
    expect(bench.status()?.latency?.value).toBe('1ms');

    bench.world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({ ...status, value: 'Error' }));
    await bench.world.clock.advance(10);
    expect(bench.status()?.value).toBe('Connected');

    bench.world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({ ...status, tunnels: [] }));
    await bench.world.clock.advance(10);
    expect(bench.status()).toMatchObject({ value: 'Connecting', conditions: [{ reason: 'NoTunnels' }] });
    expect(bench.status()?.latency).toBeUndefined();
  });

  it('writes nothing where nothing changed: not for its own write, nor after a restart', async () => {
    const bench = new Bench();
    bench.world.start('connection-watch');
    const first = bench.world.start('connection-aggregate');
    await bench.create();
    await bench.connect('liqo-tunnel', 1);
    await bench.world.clock.advance(1_000);
    const before = bench.versionOf();
    await first.stop();
    bench.world.start('connection-aggregate');
    bench.world.start('connection-aggregate');
    await bench.world.clock.advance(60_000);
    expect(bench.versionOf()).toBe(before);
  });

  it('takes the transition time from the tunnels, so that a replay says the same', async () => {
    const bench = new Bench();
    bench.world.start('connection-watch');
    bench.world.start('connection-aggregate');
    await bench.create(REF, ['liqo-tunnel']);
    await bench.world.clock.advance(5_000);
    await bench.connect('liqo-tunnel', 1);
    await bench.world.clock.advance(5_000);
    expect(bench.status()?.conditions).toMatchObject([{ status: 'True', lastTransitionTime: T0 }]);
  });

  it('judges again what has changed since the change was told', async () => {
    const bench = new Bench();
    let conflicts = 2;
    const { writes, connections } = counted(async (ref) => {
      if (conflicts-- <= 0) return;
      bench.world.kubernetes.foreignPut(ref, 'kubectl-edit', (status) => ({
        ...status,
        tunnels: (status.tunnels ?? []).map((entry) => ({ ...entry, value: 'Error' as const })),
      }));
    });
    await bench.create();
    bench.world.start('connection-aggregate', { connections });
    bench.world.start('connection-watch');
    await bench.world.clock.advance(1_000);
    expect(bench.status()?.value).toBe('Error');
    expect(writes.map(({ value }) => value)).toEqual(['Error']);
  });

  it('costs a burst of changes a few writes, and ends exact', async () => {
    const bench = new Bench();
    const { writes, connections } = counted(() => bench.world.clock.sleep(100));
    bench.world.start('connection-watch');
    bench.world.start('connection-aggregate', { connections });
    await bench.create(REF, ['liqo-tunnel']);
    await bench.world.clock.advance(1_000);
    writes.length = 0;
    for (let ms = 1; ms <= 200; ms++) {
      await bench.connect('liqo-tunnel', ms);
      await bench.world.clock.advance(1);
    }
    await bench.world.clock.advance(1_000);
    expect(bench.status()?.latency?.value).toBe('200ms');
    expect(writes.length).toBeLessThanOrEqual(6);
    expect(bench.world.count('connection-aggregate', 'throttled')).toBeGreaterThan(190);
  });

  it('shows the refreshes of one round of PINGs in one write, and a change of value at once', async () => {
    const { bench, writes, ids } = await eightConnected();

    for (const id of ids) {
      await bench.connect(id, 3);
      await bench.world.clock.advance(20);
    }
    expect(writes).toEqual([]);
    await bench.world.clock.advance(400);
    expect(writes).toMatchObject([{ value: 'Connected', latency: { value: '3ms' } }]);

    await bench.connect('liqo-tunnel', 5);
    await bench.world.clock.advance(20);
    await bench.store.applyTunnel(REF, { interfaceID: 'liqo-tunnel1', value: 'Error', lastTransitionTime: T0 });
    await bench.world.clock.advance(1);
    expect(bench.status()?.value).toBe('Error');
    await bench.world.clock.advance(10_000);
    expect(writes).toHaveLength(2);
  });

  it('shows the first of several tunnels that fail at once, and the others in one write', async () => {
    const { bench, writes, ids } = await eightConnected();

    for (const [index, interfaceID] of ids.entries()) {
      await bench.store.applyTunnel(REF, { interfaceID, value: 'Error', reason: 'NoPong', lastTransitionTime: T0 });
      await bench.world.clock.advance(20);
      if (index === 0) expect(bench.status()?.value).toBe('Error');
    }
    await bench.world.clock.advance(1_000);
    expect(writes).toHaveLength(2);
    expect(bench.status()?.conditions).toMatchObject([{ reason: 'AllTunnelsFailed' }]);
  });

  it('reads again what has waited, so that a replica that knows less does not conflict', async () => {
    const bench = new Bench();
    const attempts: string[] = [];
    const { connections } = counted(async () => void attempts.push('write'));
    bench.world.start('connection-watch');
    const replicas = [0, 1].map(() => bench.world.start('connection-aggregate', { connections }));
    await bench.create(REF, ['liqo-tunnel', 'liqo-tunnel1']);
    for (const id of ['liqo-tunnel', 'liqo-tunnel1']) await bench.connect(id, 1);
    await bench.world.clock.advance(2_000);
    attempts.length = 0;
    for (let round = 0; round < 10; round++) {
      for (const id of ['liqo-tunnel', 'liqo-tunnel1']) await bench.connect(id, 2 + round);
      await bench.world.clock.advance(2_000);
    }
    expect(bench.status()?.latency?.value).toBe('11ms');
    expect(attempts).toHaveLength(10);
    await Promise.all(replicas.map((replica) => replica.stop()));
  });

  it('loses no refresh that waits when its replica dies, nor when it stops', async () => {
    for (const end of ['crash', 'stop'] as const) {
      const bench = new Bench();
      bench.world.start('connection-watch');
      const first = bench.world.start('connection-aggregate');
      await bench.create(REF, ['liqo-tunnel']);
      await bench.connect('liqo-tunnel', 1);
      await bench.world.clock.advance(1_000);
      await bench.connect('liqo-tunnel', 2);
      await bench.world.clock.advance(100);
      const ended = first[end]();
      await bench.world.clock.advance(1_000);
      await ended;
      bench.world.start('connection-aggregate');
      await bench.world.clock.advance(10_000);
      expect(bench.status()?.latency?.value).toBe('2ms');
    }
  });

  it('lets no Connection that is refused stand in the way of others, and writes it once it may', async () => {
    const bench = new Bench();
    let refusing = true;
    const { writes, connections } = counted(async ({ name }) => {
      if (refusing && name === REF.name) throw new StoreError('unavailable', 'no answer', { status: 500 });
    });
    bench.world.start('connection-watch');
    bench.world.start('connection-aggregate', { connections });
    await bench.create(REF, ['liqo-tunnel']);
    await bench.create(OTHER, ['liqo-tunnel']);
    for (let ms = 1; ms <= 300; ms++) {
      await bench.connect('liqo-tunnel', ms);
      await bench.world.clock.advance(1_000);
    }
    await bench.connect('liqo-tunnel', 7, OTHER);
    await bench.world.clock.advance(100);
    expect(bench.status(OTHER)).toMatchObject({ value: 'Connected', latency: { value: '7ms' } });
    expect(bench.status()?.value).toBeUndefined();
    refusing = false;
    await bench.world.clock.advance(31_000);
    expect(bench.status()).toMatchObject({ value: 'Connected', latency: { value: '300ms' } });
    expect(writes.filter(({ latency }) => latency?.value === '300ms')).toHaveLength(1);
  });

  it('comes again where the API says later, not before', async () => {
    const bench = new Bench();
    const attemptsAt: number[] = [];
    const { connections } = counted(async () => {
      attemptsAt.push(bench.world.clock.monotonicMs());
      if (attemptsAt.length === 1) throw new StoreError('busy', 'later', { status: 429, retryAfterMs: 7_000 });
    });
    await bench.create(REF, ['liqo-tunnel']);
    bench.world.start('connection-aggregate', { connections });
    bench.world.start('connection-watch');
    await bench.world.clock.advance(20_000);
    expect(attemptsAt).toEqual([0, 7_000]);
    const told = bench.world.decisions.filter((decision) => decision.function === 'connection-aggregate');
    expect(told.map(({ outcome, reason }) => [outcome, reason])).toEqual([
      ['failed', 'busy'],
      ['written', 'Transition'],
    ]);
  });

  it('serves others while more Connections are refused than it takes at once, and those when they no longer are', async () => {
    const bench = new Bench();
    let isRefused = true;
    const { connections } = counted(async ({ name }) => {
      if (isRefused && name !== OTHER.name) throw new StoreError('forbidden', 'no', { status: 403 });
    });
    bench.world.start('connection-watch');
    bench.world.start('connection-aggregate', { connections });
    const refused = Array.from({ length: 80 }, (_, n) => ({ namespace: REF.namespace, name: `gw-refused-${n}` }));
    for (const ref of refused) await bench.create(ref, ['liqo-tunnel']);
    await bench.world.clock.advance(60_000);
    await bench.create(OTHER, ['liqo-tunnel']);
    await bench.world.clock.advance(1_000);
    expect(bench.status(OTHER)?.value).toBe('Connecting');
    isRefused = false;
    await bench.world.clock.advance(120_000);
    expect(refused.map((ref) => bench.status(ref)?.value)).toEqual(refused.map(() => 'Connecting'));
  });

  it('has nothing to do with a Connection that is gone', async () => {
    const bench = new Bench();
    bench.world.start('connection-watch');
    await bench.create();
    bench.world.kubernetes.deleteConnection(REF);
    await bench.world.clock.advance(10);
    bench.world.start('connection-aggregate');
    await bench.world.clock.advance(60_000);
    expect(bench.world.kubernetes.get(REF)).toBeUndefined();
    expect(bench.world.count('connection-aggregate', 'failed')).toBe(0);
  });
});
