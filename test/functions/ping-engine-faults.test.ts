import { afterEach, describe, expect, test } from 'vitest';
import { EngineWorld, PORT, tunnelAt } from '../support/engine-world.ts';
import type { FakeNetwork } from '../support/fake-network.ts';
import { startFakePeer } from '../support/peers.ts';

let world: EngineWorld;

afterEach(() => world.engine.stop());

function create(...options: ConstructorParameters<typeof EngineWorld>): EngineWorld {
  world = new EngineWorld(...options);
  return world;
}

async function startPeers(network: FakeNetwork, count: number) {
  const peers = [];
  for (let index = 0; index < count; index++) peers.push(await startFakePeer(network, tunnelAt(index).peer));
  return peers;
}

/** One PING an interval, none lost, however the other tunnels fare. */
function expectUndisturbed(...indexes: readonly number[]): void {
  for (const index of indexes) {
    const observations = world.of(index);
    expect(observations.filter(({ kind }) => kind !== 'pong')).toEqual([]);
    expect(observations.length).toBeGreaterThanOrEqual(Math.floor(world.clock.monotonicMs() / 2_000));
  }
}

describe('a send that the kernel refuses', () => {
  test('shows its code on its tunnel, no other tunnel notices, and it ends by itself (C26, C27)', async () => {
    const { clock, network } = create({ tunnels: 3 });
    await startPeers(network, 3);
    await clock.advance(9_900);
    for (const code of ['EPERM', 'EACCES', 'ENETUNREACH', 'ECONNREFUSED', 'ENOBUFS', 'EDESTADDRREQ', 'EINVAL']) {
      network.refusal = ({ to }) => (to.address === tunnelAt(1).peer.address ? code : undefined);
      await clock.advance(12_000);
      expect(world.last(1)).toMatchObject({ value: 'Error', reason: `SendFailed:${code}` });
      network.refusal = () => undefined;
      await clock.advance(1_300);
      expect(world.last(1), code).toMatchObject({ kind: 'pong', value: 'Connected' });
      await clock.advance(1_000);
      expect(world.snapshot?.tunnels[1]?.sendErrors[code], code).toBeGreaterThan(0);
    }
    expectUndisturbed(0, 2);
  });

  test('from the start on is NeverAnswered, never Connected, and has no latency (C7)', async () => {
    const { clock } = create({ prepare: (network) => Object.assign(network, { refusal: () => 'EACCES' }) });
    await clock.advance(30_000);
    expect(world.sightings.filter(({ value, rttNs }) => value === 'Connected' || rttNs !== undefined)).toEqual([]);
    expect(world.last()).toMatchObject({ value: 'Error', reason: 'NeverAnswered' });
    expect(world.last()?.message).toContain('sending fails with EACCES');
    expect(world.snapshot?.tunnels[0]?.sendErrors.EACCES).toBeGreaterThan(50);
  });
});

describe('an interface', () => {
  test('that does not exist yet costs its tunnel alone, and is used once it is there', async () => {
    const missing = new Set([tunnelAt(1).local.address]);
    const { clock, network } = create({
      tunnels: 3,
      prepare: (net) =>
        Object.assign(net, {
          openFault: ({ address }: { address: string }) => (missing.has(address) ? 'EADDRNOTAVAIL' : undefined),
        }),
    });
    await startPeers(network, 3);
    await clock.advance(11_500);
    expect(world.last(1)).toMatchObject({ value: 'Error', reason: 'NeverAnswered' });
    expect(world.last(1)?.message).toContain('EADDRNOTAVAIL');
    expect(world.snapshot?.faults['liqo-tunnel1']).toEqual({
      code: 'EADDRNOTAVAIL',
      hint: 'the address is not there: the WireGuard interface is down or not yet created',
    });
    missing.clear();
    await clock.advance(1_300);
    expect(world.last(1)).toMatchObject({ kind: 'pong', value: 'Connected' });
    expectUndisturbed(0, 2);
  });

  test('whose port somebody else has names the likely cause', async () => {
    const { clock } = create({ prepare: (network) => Object.assign(network, { openFault: () => 'EADDRINUSE' }) });
    await clock.advance(2_000);
    expect(world.last()).toMatchObject({ kind: 'miss', value: 'Connecting', reason: 'SendFailed:EADDRINUSE' });
    expect(world.snapshot?.faults['liqo-tunnel']?.hint).toContain('--enable-connection-controller=false');
  });

  test('that broke its socket gets another', async () => {
    const { clock, network } = create();
    await startPeers(network, 1);
    await clock.advance(100);
    const { opened } = network;
    network.refusal = () => 'EINVAL';
    await clock.advance(2_000);
    network.refusal = () => undefined;
    await clock.advance(2_000);
    expect(network.opened).toBeGreaterThan(opened);
    expect(world.last()).toMatchObject({ kind: 'pong' });
  });
});

describe('a process that was stopped', () => {
  test('reads what waits before it judges: no Error though the deadline passed long ago', async () => {
    const { clock, network } = create({ intervalMs: 100, lossThreshold: 3, tunnels: 2 });
    network.path = () => [20];
    await startPeers(network, 2);
    await clock.advance(1_010);
    world.stop(60_000);
    await clock.advance(1_000);
    expect(world.sightings.filter(({ value }) => value === 'Error')).toEqual([]);
    expect(world.sightings.some(({ reason }) => reason === 'Starved')).toBe(true);
    for (const { rttNs } of world.sightings.filter(({ kind }) => kind === 'pong')) expect(rttNs).toBe(40_000_000);
    expect(world.last()?.reason).toBeUndefined();
    expect(world.snapshot?.worstLagMs).toBeDefined();
  });

  test('finds a peer that died meanwhile dead, one window after what it lived of it', async () => {
    const { clock, network } = create({ intervalMs: 100, lossThreshold: 3 });
    const [peer] = await startPeers(network, 1);
    await clock.advance(1_050);
    peer?.close();
    world.stop(60_000);
    const heardMs = world.last()?.monotonicMs ?? 0;
    await clock.advance(1_000);
    const down = world.sightings.find(({ kind }) => kind === 'down');
    expect(down?.monotonicMs).toBeCloseTo(heardMs + 60_000 + 300, 0);
  });

  test('sends on while it reads a backlog that does not end, and judges only then', async () => {
    const tasks: (() => void)[] = [];
    const { clock, network, host } = create({ intervalMs: 100, lossThreshold: 3 });
    host.afterBacklog = (task) => tasks.push(task);
    const [peer] = await startPeers(network, 1);
    await clock.advance(1_050);
    peer?.close();
    const sent = world.sentTo(0);
    await clock.advance(2_000);
    expect(world.sentTo(0)).toBe(sent + 20);
    expect(world.last()?.value).toBe('Connected');
    expect(tasks.length).toBe(1);
    tasks[0]?.();
    expect(world.last()).toMatchObject({ kind: 'down', value: 'Error' });
  });

  test('shows its lag', async () => {
    const { clock, network } = create();
    await startPeers(network, 1);
    await clock.advance(1_500);
    world.stop(700);
    await clock.advance(1_000);
    expect(world.snapshot?.worstLagMs).toBeCloseTo(700, 0);
  });
});

describe('tunnels that come and go', () => {
  test('100 cycles leave no socket, no timer and no gap in the sequences (C28)', async () => {
    const { clock, network } = create({ intervalMs: 100, lossThreshold: 3, tunnels: 2 });
    await startPeers(network, 6);
    for (let cycle = 0; cycle < 100; cycle++) {
      world.engine.setTunnels(Array.from({ length: 1 + (cycle % 6) }, (_, index) => tunnelAt(index)));
      await clock.advance(100 + (cycle % 7) * 10);
    }
    world.engine.setTunnels([tunnelAt(0)]);
    await clock.advance(300);
    expect(network.openSockets).toBe(6 + 1);
    for (let index = 0; index < 6; index++) {
      const sequences = world.of(index).map(({ sequence }) => sequence);
      expect(sequences).toEqual(sequences.map((_, at) => at + 1));
      expect(world.of(index).filter(({ value }) => value === 'Error')).toEqual([]);
    }
    await world.engine.stop();
    const sent = network.sent.length;
    await clock.advance(10_000);
    expect(network.openSockets).toBe(6);
    expect(network.sent.length).toBe(sent);
  });

  test('nothing is sent to those that were taken away, and those that stay keep their state (C12)', async () => {
    const { clock, network } = create({ tunnels: 4 });
    await startPeers(network, 4);
    await clock.advance(5_900);
    world.engine.setTunnels([tunnelAt(0), tunnelAt(1)]);
    const [before2, before3] = [world.sentTo(2), world.sentTo(3)];
    await clock.advance(30_000);
    expect([world.sentTo(2), world.sentTo(3)]).toEqual([before2, before3]);
    expectUndisturbed(0, 1);
    expect(world.snapshot?.tunnels.map(({ interfaceId }) => interfaceId)).toEqual(['liqo-tunnel', 'liqo-tunnel1']);
  });

  test('start and stop within one turn, a hundred times', async () => {
    const { network, clock } = create();
    for (let i = 0; i < 100; i++) {
      const other = new EngineWorld();
      const stopped = other.engine.stop();
      await other.clock.advance(50);
      await stopped;
      expect(other.network.openSockets).toBe(0);
    }
    await clock.advance(1);
    expect(network.openSockets).toBe(1);
  });
});

describe('long runs', () => {
  test('70,000 exchanges on one tunnel are counted one by one (C33)', { timeout: 60_000 }, async () => {
    const { clock, network } = create({ intervalMs: 10, lossThreshold: 3 });
    network.path = () => [0];
    await startPeers(network, 1);
    await clock.advance(700_001);
    const [tunnel] = world.snapshot?.tunnels ?? [];
    await world.engine.stop();
    expect(world.snapshot?.tunnels[0]).toMatchObject({ pongsReceived: 70_001, pingsSent: 70_001, lossRatio: 0 });
    expect(tunnel?.pongsReceived).toBeGreaterThan(65_536);
    expect(world.last()?.sequence).toBe(70_001);
    network.sent.length = 0;
  });

  test('10,000 strangers’ names leave nothing behind (C34)', async () => {
    const { clock, network } = create();
    await startPeers(network, 1);
    await clock.advance(100);
    const { local, peer } = tunnelAt(0);
    for (let i = 0; i < 10_000; i++) {
      const name = `{"clusterID":"evil-${i}","msgType":"PONG","timeStamp":"2026-01-02T03:04:05.${100_000_000 + i}Z"}`;
      network.deliver({ bytes: new TextEncoder().encode(name), from: peer, to: local });
    }
    expect(await world.dropped()).toEqual({ 'foreign-pong': 10_000 });
    expect(JSON.stringify(world.snapshot)).not.toContain('evil');
  });
});

describe('tunnels that are not monitored', () => {
  test('are Connected without a latency, send no PING, and answer the peer’s', async () => {
    const { clock, network } = create({ enabled: false, tunnels: 2 });
    const { local, peer } = tunnelAt(0);
    await startPeers(network, 2);
    await clock.advance(9_999);
    expect(network.sent).toEqual([]);
    for (const index of [0, 1]) {
      expect(world.of(index).map(({ kind, value, reason, rttNs }) => ({ kind, value, reason, rttNs }))).toEqual(
        Array(5).fill({ kind: 'unmonitored', value: 'Connected', reason: 'Unmonitored', rttNs: undefined }),
      );
    }
    const ping = '{"clusterID":"rome","msgType":"PING","timeStamp":"2026-01-02T03:04:05Z"}';
    network.transmit({ bytes: new TextEncoder().encode(ping), from: { ...peer, port: PORT }, to: local });
    await clock.advance(10);
    expect(network.sent.map(({ to }) => to)).toEqual([local, peer]);
  });
});
