import { describe, expect, it } from 'vitest';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { type ConnectionRef, REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import { gatewaySubject, observationSubject, unlistingKey } from '../../shared/domain/subjects.ts';
import { sharedConsumer } from '../../shared/domain/topology.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import { FunctionWorld, REF, worldWith } from '../support/function-world.ts';
import { passingBus, passingStore } from '../support/passing.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const GATEWAYS_CONSUMER = sharedConsumer('connection-ensure-gateways', 'GATEWAYS', ['gateways.*.*']);
const TWO = ['liqo-tunnel', 'liqo-tunnel1'];

/** Everything but the gateway's silence. */
const ALL = ['connection-watch', 'connection-ensure', 'tunnel-status', 'connection-aggregate'];
const KEY_TO_MILAN = {
  metadata: { namespace: REF.namespace, name: 'key', labels: { [REMOTE_CLUSTER_ID_LABEL]: 'milan' } },
  spec: { publicKey: Buffer.alloc(32).toString('base64') },
};

/** Another gateway of the same namespace, to the same cluster. */
async function announceOther(world: FunctionWorld, { namespace, name: connection }: ConnectionRef): Promise<void> {
  await world.publish(gatewaySubject({ namespace, name: connection }), GATEWAY_TYPE, {
    ...{ namespace, connection, gatewayName: connection.slice(3), gatewayUid: 'other-uid', mode: 'server' },
    ...{ remoteClusterId: 'milan', interfaces: ['liqo-tunnel'], announcedAt: world.now() },
  });
  await world.clock.advance(100);
}

async function letters(world: FunctionWorld): Promise<{ readonly reason: string }[]> {
  const messages = await world.lastMessages('DEAD_LETTERS', 'dead.connection-ensure');
  return messages.map(({ data }) => JSON.parse(Buffer.from(data).toString()));
}

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
    const world = worldWith('connection-ensure', 'tunnel-status');
    const first = await world.announce(TWO);
    await world.announce(['liqo-tunnel']);
    await world.announce(TWO, { epoch: first });
    await world.clock.advance(5_000);
    expect(listed(world)).toEqual(['liqo-tunnel']);
    expect(world.count('connection-ensure', 'stale')).toBe(1);
  });

  it.each(['is deleted', 'was deleted while nobody watched'])(
    'makes the Connection that %s again, though an older run announced itself last',
    async (how) => {
      const world = worldWith('tunnel-status', 'connection-watch');
      const replica = world.start('connection-ensure');
      const first = await world.announce(TWO);
      const epoch = await world.announce(['liqo-tunnel']);
      await world.announce(TWO, { epoch: first });
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
      if (how !== 'is deleted') await replica.stop();
      world.kubernetes.deleteConnection(REF);
      await world.clock.advance(1_000);
      if (how !== 'is deleted') world.start('connection-ensure');
      await world.clock.advance(1_000);
      await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong' });
      expect(world.connection()?.status?.tunnels).toMatchObject([{ interfaceID: 'liqo-tunnel', value: 'Connected' }]);
    },
  );

  it('creates the Connection again, with its tunnels, when a public key of the remote cluster comes', async () => {
    const world = worldWith('connection-ensure');
    await world.announce(TWO);
    world.kubernetes.deleteConnection(REF); // nobody watches: nobody knows
    world.start('connection-watch');
    await world.clock.advance(100);
    expect(world.connection()).toBeUndefined();
    world.kubernetes.putPublicKey(KEY_TO_MILAN);
    await world.clock.advance(100);
    expect(listed(world)).toEqual(TWO);
  });

  it('comes back to each gateway that one key leads to, whatever becomes of the others', async () => {
    const world = new FunctionWorld();
    const other = { ...REF, name: 'gw-rome2' };
    let isAway = false;
    world.start('connection-ensure', {
      connections: (store) => ({
        ...passingStore(store),
        ensure: async (desired, options) => {
          if (isAway && desired.metadata.name === REF.name) throw new StoreError('forbidden', 'no', { status: 403 });
          if (isAway) throw new StoreError('unavailable', 'no answer');
          return store.ensure(desired, options);
        },
      }),
    });
    await world.announce(['liqo-tunnel']);
    await announceOther(world, other);
    for (const ref of [REF, other]) world.kubernetes.deleteConnection(ref);
    isAway = true;
    world.start('connection-watch');
    world.kubernetes.putPublicKey(KEY_TO_MILAN);
    await world.clock.advance(100);
    isAway = false;
    await world.clock.advance(10_000);
    expect(world.kubernetes.get(other)).toBeDefined();
  });

  it.each([
    ['forbidden', 'failed', 'forbidden'],
    ['invalid', 'invalid', 'RefusedByApi'],
  ] as const)('tells the worst of what one key leads to (%s), whoever is last', async (code, outcome, reason) => {
    for (const refused of [REF.name, 'gw-rome2']) {
      const world = new FunctionWorld();
      let isAway = false;
      world.start('connection-ensure', {
        connections: (store) => ({
          ...passingStore(store),
          ensure: async (desired, options) => {
            if (isAway && desired.metadata.name === refused) throw new StoreError(code, 'no', { status: 403 });
            return store.ensure(desired, options);
          },
        }),
      });
      await world.announce(['liqo-tunnel']);
      await announceOther(world, { ...REF, name: 'gw-rome2' });
      isAway = true;
      world.start('connection-watch');
      world.kubernetes.putPublicKey(KEY_TO_MILAN);
      await world.clock.settle();
      expect(world.count('connection-ensure', outcome), refused).toBe(1);
      const told = outcome === 'invalid' ? await letters(world) : world.decisions;
      expect(told.map((about) => about.reason)).toContain(reason);
    }
  });

  describe('a replica that sleeps in the middle of a listing, while another one works', () => {
    /** Sleeps at the first call that `isIt` names; what it is given from then on it never comes to. */
    function sleeper(world: FunctionWorld, isIt: (call: 'listed' | 'removeTunnel') => boolean) {
      const sleep = Promise.withResolvers<void>();
      let sleeps = false;
      const pass = async (call: 'listed' | 'removeTunnel') => {
        sleeps ||= isIt(call);
        if (sleeps) await sleep.promise;
      };
      world.start('connection-ensure', {
        bus: () => {
          // Its own clock stands still, so nothing tells the server that an event is being worked on.
          const bus = new EmbeddedBus(world.broker, new VirtualClock());
          return {
            ...passingBus(bus),
            async publish(message) {
              if (message.headers['ce-id']?.startsWith('listed.')) await pass('listed');
              return bus.publish(message);
            },
            consume: (consumer, handle, signal) =>
              bus.consume(
                consumer,
                async (delivery) => {
                  return sleeps ? new Promise(() => {}) : handle(delivery);
                },
                signal,
              ),
          };
        },
        connections: (store) => ({
          ...passingStore(store),
          async removeTunnel(...call) {
            await pass('removeTunnel');
            return store.removeTunnel(...call);
          },
        }),
      });
      return {
        /** The server waits for an ack as long as it may, and gives what this one holds to another replica. */
        async isReplaced() {
          world.start('connection-ensure');
          await world.clock.advance(31_000);
          expect(sleeps).toBe(true);
        },
        async wake() {
          sleep.resolve();
          await world.clock.advance(100);
        },
      };
    }

    it('does not leave the tunnels of a Connection that was made anew to its namesake', async () => {
      const world = worldWith('tunnel-status');
      const { isReplaced, wake } = sleeper(world, (call) => call === 'listed');
      const epoch = await world.announce(['liqo-tunnel']);
      world.kubernetes.deleteConnection(REF);
      await world.announce(['liqo-tunnel'], { epoch });
      await isReplaced();
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
      expect(world.tunnel()?.value).toBe('Connected');
      await wake();
      await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
      expect(world.tunnel()?.value).toBe('Error');
    });

    it('takes no entry away that a newer announcement lists', async () => {
      const world = worldWith('tunnel-status');
      let isShrinking = false;
      const { wake } = sleeper(world, (call) => isShrinking && call === 'removeTunnel');
      const epoch = await world.announce(TWO);
      isShrinking = true;
      await world.announce(['liqo-tunnel'], { epoch });
      world.start('connection-ensure');
      const three = [...TWO, 'liqo-tunnel2'];
      // Within the time of an attempt; the server gives some of them to the one that sleeps.
      for (let times = 0; times < 4; times++) await world.announce(three, { epoch });
      expect(listed(world)).toEqual(three);
      await wake();
      expect(listed(world)).toEqual(three);
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', interfaceId: 'liqo-tunnel1' });
      expect(world.tunnel('liqo-tunnel1')?.value).toBe('Connected');
    });
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

  it('lists the tunnels of all gateways then, also of those that it looks at in the same instant', async () => {
    const world = worldWith('connection-ensure');
    const other = { ...REF, name: 'gw-rome2' };
    await world.announce(['liqo-tunnel']);
    await announceOther(world, other);
    world.state = new EmbeddedStateStore();
    world.start('connection-ensure');
    await world.clock.advance(100);
    const said = [...world.broker.messages('OBSERVATIONS')].map(({ subject, data }) => [
      subject.split('.').at(-2),
      JSON.parse(new TextDecoder().decode(data)).kind,
    ]);
    expect(said).toEqual([REF, other, REF, other].map(({ name }) => [name, 'listed']));
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

  it.each(['meets a conflict', 'dies'])(
    'lists again what an older announcement was about to take away when its replica %s',
    async (end) => {
      const world = worldWith();
      const tunnelStatus = world.start('tunnel-status');
      const meeting = Promise.withResolvers<void>();
      let isShrinking = false;
      let inWork: ReturnType<FunctionWorld['start']> | undefined;
      for (let replicas = 0; replicas < 2; replicas++) {
        const replica = world.start('connection-ensure', {
          connections: (store) => ({
            ...passingStore(store),
            async removeTunnel(...call) {
              if (!isShrinking) return store.removeTunnel(...call);
              isShrinking = false;
              inWork = replica;
              await meeting.promise;
              throw new StoreError('conflict', 'somebody was first', { status: 409 });
            },
          }),
        });
      }
      const epoch = await world.announce(TWO);
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', interfaceId: 'liqo-tunnel1' });
      await tunnelStatus.stop(); // so that it hears of nothing until all is over
      isShrinking = true;
      await world.announce(['liqo-tunnel'], { epoch });
      await world.announce(TWO, { epoch });
      if (end === 'dies') await inWork?.crash();
      else meeting.resolve();
      await world.clock.advance(31_000);
      world.start('tunnel-status');
      await world.clock.advance(100);
      await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down', interfaceId: 'liqo-tunnel1' });
      expect(world.tunnel('liqo-tunnel1')?.value).toBe('Error');
    },
  );

  it('ends what nobody came back to end: a tunnel is not listed anew for ever', async () => {
    const world = worldWith(...ALL);
    const epoch = await world.announce(['liqo-tunnel']);
    const key = unlistingKey(REF, 'liqo-tunnel');
    await world.state.put(key, { eventId: 'start-1', atUnixMs: world.clock.unixMs() });
    await world.announce(['liqo-tunnel'], { epoch });
    expect(await world.state.get(key)).toBeDefined();
    await world.clock.advance(3_600_001);
    await world.announce(['liqo-tunnel'], { epoch });
    expect(await world.state.get(key)).toBeUndefined();
  });

  /** Observations of `ms`, one in two seconds, as a gateway makes them that lives. */
  async function speakFor(world: FunctionWorld, ms: number, gatewayEpoch: number, from = 1): Promise<void> {
    for (let sequence = from; sequence < from + ms / 2_000; sequence++) {
      await world.observe({ gatewayEpoch, sequence, kind: 'pong' });
      await world.clock.advance(2_000);
    }
  }

  /** A replica whose API answers with `refusal()` for as long as that is something. */
  function refusedReplica(world: FunctionWorld, refusal: () => StoreError | undefined): readonly number[] {
    const attemptsAt: number[] = [];
    world.start('connection-ensure', {
      connections: (store) => ({
        ...passingStore(store),
        async ensure(...call) {
          attemptsAt.push(world.clock.monotonicMs());
          const error = refusal();
          if (error !== undefined) throw error;
          return store.ensure(...call);
        },
      }),
    });
    return attemptsAt;
  }

  it.each(['not-found', 'forbidden'] as const)(
    'comes back, ever more slowly, to a gateway whose namespace refuses it (%s)',
    async (code) => {
      const world = new FunctionWorld();
      let refusing = true;
      const attemptsAt = refusedReplica(world, () => (refusing ? new StoreError(code, 'no namespace') : undefined));
      const epoch = await world.announce(TWO);
      await speakFor(world, 200_000, epoch);
      expect(world.connection()).toBeUndefined();
      const seconds = attemptsAt.map((ms) => Math.round(ms / 1_000));
      expect(seconds).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183]);
      refusing = false;
      await speakFor(world, 62_000, epoch, 1_001);
      expect(listed(world)).toEqual(TWO);
    },
  );

  it('gives up on a gateway that is refused and has gone silent, until it announces itself again', async () => {
    const world = new FunctionWorld();
    let refusing = true;
    const attemptsAt = refusedReplica(world, () => (refusing ? new StoreError('not-found', 'gone') : undefined));
    await world.announce(TWO);
    await world.clock.advance(3_600_000);
    expect(attemptsAt.length).toBe(5); // those within 30 s of its only word
    refusing = false;
    await world.announce(TWO);
    expect(listed(world)).toEqual(TWO);
  });

  it('serves others while more gateways are refused than it takes at once', async () => {
    const world = new FunctionWorld();
    const attemptsAt = refusedReplica(world, () =>
      attemptsAt.length <= 100 ? new StoreError('not-found', 'no namespace') : undefined,
    );
    for (let index = 0; index < 100; index++) {
      const ref = { namespace: 'nowhere', name: `gw-${index}` };
      const { namespace, name: connection } = ref;
      const about = { namespace, connection, gatewayName: `${index}`, mode: 'server', remoteClusterId: 'milan' };
      const data = { ...about, interfaces: TWO, announcedAt: world.now() };
      await world.publish(gatewaySubject(ref), GATEWAY_TYPE, data);
    }
    await world.announce(TWO);
    expect(listed(world)).toEqual(TWO);
  });

  it('tries again while the API does not answer', async () => {
    const world = new FunctionWorld();
    let isAway = true;
    const attemptsAt = refusedReplica(world, () => (isAway ? new StoreError('unavailable', 'no answer') : undefined));
    await world.announce(TWO);
    await world.clock.advance(120_000);
    expect(attemptsAt.length).toBeGreaterThan(5);
    expect(attemptsAt.length).toBeLessThan(15); // ever more slowly
    isAway = false;
    await world.clock.advance(31_000);
    expect(listed(world)).toEqual(TWO);
  });

  it('keeps the announcement of what the API would never take as a dead letter', async () => {
    const world = new FunctionWorld();
    const attemptsAt = refusedReplica(
      world,
      () => new StoreError('invalid', 'metadata.labels: must be no more than 63'),
    );
    await world.announce(TWO);
    await world.clock.advance(3_600_000);
    expect(attemptsAt).toEqual([0]);
    expect(await letters(world)).toMatchObject([{ reason: 'RefusedByApi' }]);
  });

  describe('at its start, where the Connection of an announced gateway is missing', () => {
    /** A gateway that announced itself and spoke, and whose Connection went while nobody watched. */
    async function worldWithout(): Promise<{ world: FunctionWorld; epoch: number }> {
      const world = new FunctionWorld();
      const [ensure, status] = [world.start('connection-ensure'), world.start('tunnel-status')];
      const epoch = await world.announce(TWO);
      await speakFor(world, 4_000, epoch);
      await ensure.stop();
      await status.stop();
      world.kubernetes.deleteConnection(REF);
      return { world, epoch };
    }

    it('makes it where the gateway has spoken lately', async () => {
      const { world } = await worldWithout();
      world.start('connection-ensure');
      await world.clock.advance(1_000);
      expect(listed(world)).toEqual(TWO);
    });

    it('makes it as soon as the gateway is heard, where the last word was said in its stead', async () => {
      const { world, epoch } = await worldWithout();
      await world.clock.advance(600_000);
      const said = { namespace: REF.namespace, connection: REF.name, gatewayEpoch: epoch, observedAt: world.now() };
      for (const interfaceId of TWO) {
        const data = { ...said, interfaceId, kind: 'silent', message: 'gone' };
        await world.publish(observationSubject(REF, interfaceId), OBSERVATION_TYPE, data);
      }
      world.start('connection-ensure');
      await world.clock.advance(5_000);
      expect(world.connection()).toBeUndefined();
      await speakFor(world, 10_000, epoch, 100);
      expect(listed(world)).toEqual(TWO);
    });

    it('leaves it away where the gateway is long gone, at each start, until it announces itself', async () => {
      const { world } = await worldWithout();
      await world.clock.advance(600_000);
      for (let restart = 1; restart <= 3; restart++) {
        const ensure = world.start('connection-ensure');
        await world.clock.advance(120_000);
        expect(world.connection()).toBeUndefined();
        expect(world.decisions.filter(({ reason }) => reason === 'GatewaySilent').length).toBe(restart);
        await ensure.stop();
      }
      world.start('connection-ensure');
      await world.announce(TWO);
      expect(listed(world)).toEqual(TWO);
    });

    it('leaves it away where only an older run of the gateway still speaks', async () => {
      const { world, epoch: older } = await worldWithout();
      const ensure = world.start('connection-ensure');
      await world.announce(TWO);
      await world.clock.advance(5_000);
      await ensure.stop();
      world.kubernetes.deleteConnection(REF);
      await world.clock.advance(600_000);
      world.start('connection-ensure');
      await speakFor(world, 300_000, older, 100);
      expect(world.connection()).toBeUndefined();
      await world.clock.advance(300_000);
      expect(world.decisions.at(-1)).toMatchObject({ reason: 'GatewaySilent' });
    });

    it('leaves it away, too, where its consumer was made again and hands out every announcement', async () => {
      const { world } = await worldWithout();
      await world.clock.advance(600_000);
      const consumer = world.broker.consumer(GATEWAYS_CONSUMER);
      consumer.recreate('setup');
      expect(consumer.statistics().waiting).toBe(1);
      world.start('connection-ensure');
      await world.clock.advance(120_000);
      expect(world.connection()).toBeUndefined();
    });

    it('mends the one that is there though its gateway is long gone', async () => {
      const world = new FunctionWorld();
      const ensure = world.start('connection-ensure');
      await world.announce(TWO);
      await ensure.stop();
      world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({ ...status, tunnels: [] }));
      await world.clock.advance(600_000);
      world.start('connection-ensure');
      await world.clock.settle();
      expect(listed(world)).toEqual(TWO);
    });
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
