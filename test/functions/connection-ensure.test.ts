import { describe, expect, it } from 'vitest';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE } from '../../shared/domain/gateway-announcement.ts';
import { gatewaySubject } from '../../shared/domain/subjects.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import { FunctionWorld, REF } from '../support/function-world.ts';
import { passingStore } from '../support/passing.ts';

const TWO = ['liqo-tunnel', 'liqo-tunnel1'];

/** Everything but the gateway's silence. */
function worldWith(...functions: readonly string[]): FunctionWorld {
  const world = new FunctionWorld();
  for (const name of functions) world.start(name);
  return world;
}

const ALL = ['connection-watch', 'connection-ensure', 'tunnel-status', 'connection-aggregate'];
const listed = (world: FunctionWorld) => world.connection()?.status?.tunnels?.map(({ interfaceID }) => interfaceID);

describe('connection-ensure', () => {
  it('creates what the announcement asks for, owned by the gateway without being its controller', async () => {
    const world = worldWith('connection-ensure');
    await world.announce(TWO, { mode: 'client' });
    expect(world.connection()).toMatchObject({
      metadata: {
        labels: { [REMOTE_CLUSTER_ID_LABEL]: 'milan' },
        ownerReferences: [{ kind: 'GatewayClient', name: 'rome', uid: 'gateway-uid' }],
      },
      spec: { type: 'Client', gatewayRef: { kind: 'WgGatewayClient', name: 'rome', uid: 'gateway-uid' } },
      status: {
        tunnels: [
          { interfaceID: 'liqo-tunnel', value: 'Connecting' },
          { interfaceID: 'liqo-tunnel1', value: 'Connecting' },
        ],
      },
    });
    expect(world.connection()?.metadata.ownerReferences?.[0]?.controller).toBeUndefined();
  });

  it('is idempotent: neither a repeated announcement, nor a restart, nor its own changes write again', async () => {
    const world = worldWith(...ALL);
    const epoch = await world.announce(TWO);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    await world.clock.advance(1_000);
    const before = world.connection()?.metadata.resourceVersion;
    await world.announce(TWO, { epoch });
    world.start('connection-ensure');
    world.start('connection-ensure');
    await world.clock.advance(20_000);
    expect(world.connection()?.metadata.resourceVersion).toBe(before);
  });

  it('leaves a live entry as it is while it adds and removes others', async () => {
    const world = worldWith(...ALL);
    const epoch = await world.announce(TWO);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', rttNs: 4_000_000 });
    const live = world.tunnel();
    await world.announce(['liqo-tunnel', 'liqo-tunnel2'], { epoch });
    expect(listed(world)).toEqual(['liqo-tunnel', 'liqo-tunnel2']);
    expect(world.tunnel()).toEqual(live);
  });

  it('follows the newest run of the gateway, whatever an older one still says', async () => {
    const world = worldWith('connection-ensure');
    const first = await world.announce(TWO);
    await world.announce(['liqo-tunnel']);
    await world.announce(TWO, { epoch: first });
    await world.clock.advance(5_000);
    expect(listed(world)).toEqual(['liqo-tunnel']);
    expect(world.count('connection-ensure', 'stale')).toBe(1);
  });

  it('creates the Connection again, with its tunnels, when a public key of the remote cluster comes', async () => {
    const world = worldWith('connection-ensure');
    await world.announce(TWO);
    world.kubernetes.deleteConnection(REF); // nobody watches: nobody knows
    world.start('connection-watch');
    await world.clock.advance(100);
    expect(world.connection()).toBeUndefined();
    world.kubernetes.putPublicKey({
      metadata: { namespace: REF.namespace, name: 'key', labels: { [REMOTE_CLUSTER_ID_LABEL]: 'milan' } },
      spec: { publicKey: Buffer.alloc(32).toString('base64') },
    });
    await world.clock.advance(100);
    expect(listed(world)).toEqual(TWO);
  });

  it('has nothing to do with the key of a cluster that no gateway leads to', async () => {
    const world = worldWith('connection-watch', 'connection-ensure');
    for (const [name, labels] of [
      ['of-another', { [REMOTE_CLUSTER_ID_LABEL]: 'naples' }],
      ['unlabelled', {}],
    ] as const) {
      world.kubernetes.putPublicKey({
        metadata: { namespace: REF.namespace, name, labels },
        spec: { publicKey: Buffer.alloc(32).toString('base64') },
      });
    }
    await world.clock.advance(100);
    expect(world.count('connection-ensure', 'orphan')).toBe(2);
    expect(world.connection()).toBeUndefined();
  });

  it('mends what somebody edits: the list of tunnels, the label', async () => {
    const world = worldWith(...ALL);
    const epoch = await world.announce(TWO);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({
      ...status,
      tunnels: [{ interfaceID: 'liqo-tunnel9', value: 'Connected' }],
    }));
    await world.clock.advance(100);
    expect(listed(world)?.toSorted()).toEqual(TWO);
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong' });
    expect(world.tunnel()?.value).toBe('Connected');

    const live = world.connection();
    world.kubernetes.replace({
      metadata: { ...REF, labels: {}, ownerReferences: live?.metadata.ownerReferences ?? [] },
      spec: live?.spec as NonNullable<typeof live>['spec'],
    });
    await world.clock.advance(100);
    expect(world.connection()?.metadata.labels).toEqual({ [REMOTE_CLUSTER_ID_LABEL]: 'milan' });
  });

  it('lists the tunnels again at its start where the state bucket was lost', async () => {
    const world = new FunctionWorld();
    const ensure = world.start('connection-ensure');
    const status = world.start('tunnel-status');
    const epoch = await world.announce(TWO);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    await ensure.stop();
    await status.stop();
    world.state = new EmbeddedStateStore();
    world.start('tunnel-status');
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Connected'); // an orphan by what is known
    world.start('connection-ensure');
    await world.clock.settle();
    await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Error');
  });

  it('tells of a tunnel that comes back that it is listed, so that it shows its values at once', async () => {
    const world = worldWith(...ALL);
    const epoch = await world.announce(TWO);
    const pong = (sequence: number) =>
      world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong', interfaceId: 'liqo-tunnel1' });
    await pong(1);
    await world.announce(['liqo-tunnel'], { epoch });
    await pong(2);
    expect(listed(world)).toEqual(['liqo-tunnel']);
    await world.announce(TWO, { epoch });
    expect(world.tunnel('liqo-tunnel1')?.value).toBe('Connecting');
    await pong(3);
    expect(world.tunnel('liqo-tunnel1')?.value).toBe('Connected');
  });

  it('tries again, ever more slowly, while the API refuses; a change that is overtaken is let go', async () => {
    const world = new FunctionWorld();
    let refusing = true;
    const attemptsAt: number[] = [];
    world.start('connection-ensure', {
      connections: (store) => ({
        ...passingStore(store),
        async ensure(...call) {
          attemptsAt.push(world.clock.monotonicMs());
          if (refusing) throw new StoreError('forbidden', 'no role', { status: 403 });
          return store.ensure(...call);
        },
      }),
    });
    await world.announce(TWO);
    await world.clock.advance(60_000);
    expect(world.connection()).toBeUndefined();
    expect(attemptsAt.slice(0, 5)).toEqual([0, 250, 750, 1_750, 3_750]);
    refusing = false;
    await world.clock.advance(31_000);
    expect(listed(world)).toEqual(TWO);
  });

  it('adds nothing to a Connection that is being deleted', async () => {
    const world = new FunctionWorld();
    world.start('connection-ensure', {
      connections: (store) => ({
        ...passingStore(store),
        async ensure(...call) {
          const { connection, change } = await store.ensure(...call);
          const metadata = { ...connection.metadata, deletionTimestamp: world.now() };
          return { connection: { ...connection, metadata }, change };
        },
      }),
    });
    await world.announce(TWO);
    expect(listed(world)).toBeUndefined();
  });

  it('keeps an announcement that says nothing sensible as a dead letter, and the listing as it was', async () => {
    const world = worldWith('connection-ensure');
    await world.announce(TWO);
    await world.publish(gatewaySubject(REF), GATEWAY_TYPE, { namespace: REF.namespace, interfaces: [] });
    await world.clock.advance(60_000);
    const letters = await world.lastMessages('DEAD_LETTERS', 'dead.connection-ensure');
    expect(JSON.parse(Buffer.from(letters[0]?.data ?? []).toString())).toMatchObject({ reason: 'SchemaViolation' });
    expect(listed(world)).toEqual(TWO);
  });
});
