import { describe, expect, it } from 'vitest';
import { FunctionWorld } from '../support/function-world.ts';

describe('the functions together', () => {
  it('list the announced tunnels as Connecting, then show what the gateway observes', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);

    expect(world.connection()?.status?.value).toBe('Connecting');
    expect(world.tunnel('liqo-tunnel1')?.value).toBe('Connecting');

    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', rttNs: 1_000_000 });
    await world.observe({
      gatewayEpoch: epoch,
      sequence: 1,
      kind: 'pong',
      rttNs: 3_000_000,
      interfaceId: 'liqo-tunnel1',
    });
    expect(world.connection()?.status).toMatchObject({
      value: 'Connected',
      latency: { value: '2ms' },
      conditions: [{ type: 'Ready', status: 'True', reason: 'AllTunnelsConnected' }],
    });

    await world.observe({
      gatewayEpoch: epoch,
      sequence: 2,
      kind: 'down',
      interfaceId: 'liqo-tunnel1',
      reason: 'NoPong',
    });
    const status = world.connection()?.status;
    expect(status?.value).toBe('Error');
    expect(status?.latency).toBeUndefined();
    expect(status?.conditions?.[0]).toMatchObject({ status: 'False', reason: 'TunnelsFailed' });
    expect(status?.conditions?.[0]?.message).toContain('liqo-tunnel1 Error NoPong since');
    expect(world.tunnel('liqo-tunnel1')).not.toHaveProperty('latency');
    expect(world.tunnel()?.value).toBe('Connected');

    await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'pong', interfaceId: 'liqo-tunnel1' });
    expect(world.tunnel('liqo-tunnel1')).not.toHaveProperty('reason');
    expect(world.connection()?.status?.value).toBe('Connected');
  });

  it('come to the same result with two replicas as with one', async () => {
    const statuses = [];
    for (const replicas of [1, 2]) {
      const world = new FunctionWorld();
      world.startAll(replicas);
      const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
      for (let sequence = 1; sequence <= 20; sequence++) {
        await world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong', rttNs: sequence * 1_000_000 });
        const kind = sequence % 7 === 0 ? 'down' : 'pong';
        await world.observe({ gatewayEpoch: epoch, sequence, kind, interfaceId: 'liqo-tunnel1' });
        await world.clock.advance(2_000);
      }
      statuses.push(world.connection()?.status);
    }
    expect(statuses[1]).toEqual(statuses[0]);
    expect(statuses[0]?.value).toBe('Connected');
  });

  it('follow a change of the number of interfaces, and bring no removed entry back', async () => {
    const world = new FunctionWorld();
    world.startAll(2);
    const four = ['liqo-tunnel', 'liqo-tunnel1', 'liqo-tunnel2', 'liqo-tunnel3'];
    const first = await world.announce(four);
    for (const interfaceId of four) {
      await world.observe({ gatewayEpoch: first, sequence: 1, kind: 'pong', interfaceId });
    }
    await world.observe({ gatewayEpoch: first, sequence: 2, kind: 'down', interfaceId: 'liqo-tunnel3' });
    expect(world.connection()?.status?.value).toBe('Error');

    const second = await world.announce(four.slice(0, 2));
    expect(world.connection()?.status?.tunnels?.map(({ interfaceID }) => interfaceID)).toEqual(four.slice(0, 2));
    expect(world.connection()?.status?.value).toBe('Connected');

    await world.observe({ gatewayEpoch: first, sequence: 3, kind: 'pong', interfaceId: 'liqo-tunnel3' });
    await world.observe({ gatewayEpoch: second, sequence: 1, kind: 'pong', interfaceId: 'liqo-tunnel3' });
    await world.clock.advance(20_000);
    expect(world.connection()?.status?.tunnels).toHaveLength(2);
    expect(world.count('tunnel-status', 'orphan')).toBe(2);
  });

  it('tell a Connection that was deleted and created again from its namesake', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const epoch = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    const before = world.connection()?.metadata.uid;

    world.kubernetes.deleteConnection({ namespace: 'liqo-tenant-rome', name: 'gw-rome' });
    await world.clock.advance(100);
    expect(world.connection()?.metadata.uid).not.toBe(before);
    expect(world.tunnel()?.value).toBe('Connecting');

    // Within the update interval of the write to the old one: the new one's first status is not throttled by it.
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong' });
    expect(world.connection()?.status?.value).toBe('Connected');
  });

  it('do not recreate for a gateway that is gone', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const epoch = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    await world.clock.advance(120_000);
    world.kubernetes.deleteConnection({ namespace: 'liqo-tenant-rome', name: 'gw-rome' });
    await world.clock.advance(120_000);
    expect(world.connection()).toBeUndefined();
  });
});
