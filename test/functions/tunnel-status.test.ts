import { describe, expect, it } from 'vitest';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { OBSERVATION_TYPE, type Silent } from '../../shared/domain/observation.ts';
import { observationSubject } from '../../shared/domain/subjects.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { EventBus } from '../../shared/ports/event-bus.ts';
import { FunctionWorld, REF, type SETTINGS } from '../support/function-world.ts';
import { passingBus, passingStore } from '../support/passing.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

async function worldWithTunnel(options: { settings?: typeof SETTINGS } = {}) {
  const world = new FunctionWorld();
  world.start('connection-ensure');
  const replica = world.start('tunnel-status', options);
  const epoch = await world.announce(['liqo-tunnel']);
  return { world, epoch, replica };
}

/** What gateway-silence says of the tunnel. */
function silentOf(world: FunctionWorld, gatewayEpoch: number): Silent {
  const about = { namespace: REF.namespace, connection: REF.name, interfaceId: 'liqo-tunnel', gatewayEpoch };
  return { kind: 'silent', ...about, observedAt: world.now() };
}

describe('tunnel-status', () => {
  it('writes an unchanged tunnel again only after more than the update interval of gateway time', async () => {
    const { world, epoch } = await worldWithTunnel();
    const writtenAt: number[] = [];
    let shown = '';
    for (let sequence = 1; sequence <= 60; sequence++) {
      await world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong', rttNs: sequence * 1_000_000 });
      const latency = world.tunnel()?.latency?.value ?? '';
      if (latency !== shown) writtenAt.push(world.clock.monotonicMs());
      shown = latency;
      await world.clock.advance(1_000);
    }
    expect(writtenAt).toEqual([0, 11_000, 22_000, 33_000, 44_000, 55_000]);
    expect(world.count('tunnel-status', 'throttled') + world.count('tunnel-status', 'written')).toBe(61);
  });

  it('is not moved by a step of the wall clock', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    world.clock.stepUnix(3_600_000);
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong' });
    world.clock.stepUnix(-7_200_000);
    await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'pong' });
    expect(world.count('tunnel-status', 'written')).toBe(1);
  });

  it('never throttles a change of value, nor a new gateway run', async () => {
    const { world, epoch } = await worldWithTunnel();
    for (const [sequence, kind] of [
      [1, 'pong'],
      [2, 'down'],
      [3, 'pong'],
      [4, 'down'],
      [5, 'pong'],
    ] as const) {
      await world.observe({ gatewayEpoch: epoch, sequence, kind });
    }
    expect(world.count('tunnel-status', 'written')).toBe(5);
    const next = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: next, sequence: 1, kind: 'pong', rttNs: 7_000_000 });
    expect(world.tunnel()?.latency?.value).toBe('7ms');
  });

  it('keeps the value of a tunnel whose gateway has restarted until its first verdict', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    const next = await world.announce(['liqo-tunnel']);
    for (let sequence = 1; sequence <= 4; sequence++) {
      await world.observe({
        gatewayEpoch: next,
        sequence,
        kind: 'miss',
        value: 'Connecting',
        consecutiveMisses: sequence,
      });
      await world.clock.advance(6_000);
      expect(world.tunnel()?.value).toBe('Connected');
    }
    await world.observe({ gatewayEpoch: next, sequence: 5, kind: 'down', reason: 'NeverAnswered' });
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'NeverAnswered' });
  });

  it('lets no miss write, and no miss put off the next refresh', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    const { resourceVersion } = world.connection()?.metadata ?? {};
    for (let sequence = 2; sequence <= 8; sequence++) {
      await world.clock.advance(2_000);
      await world.observe({ gatewayEpoch: epoch, sequence, kind: 'miss', consecutiveMisses: sequence - 1 });
    }
    expect(world.connection()?.metadata.resourceVersion).toBe(resourceVersion);
    await world.observe({ gatewayEpoch: epoch, sequence: 9, kind: 'pong', rttNs: 9_000_000 });
    expect(world.tunnel()?.latency?.value).toBe('9ms');
  });

  it('never lets an older event win over a newer one, whatever the order of delivery', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'pong' });
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Connected');
    const next = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: next, sequence: 1, kind: 'pong' });
    await world.observe({ gatewayEpoch: epoch, sequence: 99, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Connected');
    expect(world.count('tunnel-status', 'stale')).toBe(2);
  });

  describe('after a change of replica', () => {
    const throttled = async () => {
      const { world, epoch, replica } = await worldWithTunnel();
      const observe = (sequence: number, kind: 'pong' | 'down', id?: string) =>
        world.observe({ gatewayEpoch: epoch, sequence, kind }, id);
      await observe(1, 'pong');
      await observe(5, 'pong');
      const next = async () => {
        await replica.crash();
        world.start('tunnel-status');
      };
      return { world, epoch, observe, next };
    };

    it('lets no older event win over one that was only throttled', async () => {
      const { world, observe, next } = await throttled();
      await next();
      await observe(2, 'down', 'sent again by hand');
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.count('tunnel-status', 'stale')).toBe(1);
      await observe(6, 'down');
      expect(world.tunnel()?.value).toBe('Error');
    });

    it('knows the newest when an older one was refused in between', async () => {
      const { world, observe, next } = await throttled();
      await observe(2, 'down', 'sent again by hand');
      await next();
      await observe(3, 'down', 'and another');
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.count('tunnel-status', 'stale')).toBe(2);
    });

    it('knows the newest when invalid ones came after it', async () => {
      const { world, observe, next } = await throttled();
      await world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, { not: 'an observation' });
      await world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, { nor: 'this' });
      await world.clock.settle();
      await next();
      await observe(2, 'down', 'sent again by hand');
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.count('tunnel-status', 'stale')).toBe(1);
    });

    describe('and an event that nobody can take as the first one', () => {
      /** Two replicas that take turns, then one: `others` falls to the other, and what nobody can take to the one that stays. */
      async function alone(other: (observe: Awaited<ReturnType<typeof throttled>>['observe']) => Promise<void>) {
        const world = new FunctionWorld();
        world.start('connection-ensure');
        world.start('tunnel-status');
        const epoch = await world.announce(['liqo-tunnel']);
        const observe = (sequence: number, kind: 'pong' | 'down') =>
          world.observe({ gatewayEpoch: epoch, sequence, kind });
        await observe(1, 'pong');
        const leaving = world.start('tunnel-status');
        await world.clock.settle();
        await observe(2, 'pong');
        await other(observe);
        await leaving.stop();
        await world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, { not: 'an observation' });
        await world.clock.settle();
        return { world, observe };
      }

      it('throttles no change of value', async () => {
        const { world, observe } = await alone((other) => other(3, 'down'));
        expect(world.tunnel()?.value).toBe('Error');
        await observe(4, 'pong');
        expect(world.tunnel()?.value).toBe('Connected');
      });

      it('lets no older event win', async () => {
        const { world, observe } = await alone((other) => other(10, 'pong'));
        await observe(5, 'down');
        expect(world.tunnel()?.value).toBe('Connected');
        expect(world.count('tunnel-status', 'stale')).toBe(1);
      });
    });

    it('knows the newest when the silence of the gateway was told in between', async () => {
      const { world, epoch, observe, next } = await throttled();
      await world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, silentOf(world, epoch));
      await world.clock.settle();
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
      await next();
      await observe(2, 'pong', 'sent again by hand');
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
    });
  });

  describe('when every attempt at an event meets a conflict', () => {
    async function contended() {
      const { world, epoch, replica } = await worldWithTunnel();
      let isContended = false;
      await replica.crash();
      const next = () =>
        world.start('tunnel-status', {
          connections: (store) => ({
            ...passingStore(store),
            async applyTunnel(...call) {
              if (isContended) throw new StoreError('conflict', 'somebody was first', { status: 409 });
              return store.applyTunnel(...call);
            },
          }),
        });
      const first = next();
      const observe = (sequence: number, kind: 'pong' | 'down', id?: string) =>
        world.observe({ gatewayEpoch: epoch, sequence, kind }, id);
      await observe(1, 'pong');
      await observe(5, 'pong');
      /** While somebody else is always first. */
      const whileContended = async (work: () => Promise<unknown>) => {
        isContended = true;
        await work();
        await world.clock.settle();
        isContended = false;
        expect(world.tunnel()?.value).toBe('Connected');
        expect(world.count('tunnel-status', 'failed')).toBe(1);
      };
      const silence = () =>
        world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, silentOf(world, epoch));
      return { world, observe, silence, whileContended, next, first };
    }

    it('keeps the order that only its memory had, though the event has none', async () => {
      const { world, observe, silence, whileContended } = await contended();
      await whileContended(silence);
      await observe(2, 'down', 'sent again by hand');
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.count('tunnel-status', 'stale')).toBe(1);
    });

    it('tells the order to the replica after it', async () => {
      const { world, observe, silence, whileContended, next, first } = await contended();
      await whileContended(silence);
      await first.crash();
      next();
      await observe(2, 'down', 'sent again by hand');
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.count('tunnel-status', 'stale')).toBe(1);
    });

    it('tells the change that was never shown with what takes its place', async () => {
      const { world, observe, whileContended } = await contended();
      await whileContended(() => observe(6, 'down'));
      await observe(7, 'pong');
      const told = world.decisions.filter((decision) => decision.function === 'tunnel-status');
      expect(told.at(-1)).toMatchObject({ outcome: 'throttled', superseded: 1 });
      expect(world.tunnel()?.value).toBe('Connected');
    });
  });

  describe('a replica that slept with an event in its hands, while another handled it and those after it', () => {
    /** Sleeps from the given delivery on, counted from 1. */
    function sleeperOf(world: FunctionWorld, atDelivery: number) {
      const sleep = Promise.withResolvers<void>();
      let deliveries = 0;
      world.start('tunnel-status', {
        bus: () => {
          // Its own clock stands still, so nothing tells the server that the event is being worked on.
          const bus = new EmbeddedBus(world.broker, new VirtualClock());
          const consume: EventBus['consume'] = (consumer, handle, signal) =>
            bus.consume(
              consumer,
              async (delivery) => {
                if (++deliveries === atDelivery) await sleep.promise;
                return handle(delivery);
              },
              signal,
            );
          return { ...passingBus(bus), consume };
        },
      });
      return {
        async wake() {
          expect(deliveries).toBe(atDelivery);
          sleep.resolve();
          await world.clock.settle();
        },
      };
    }

    async function worldWithSleeper(atDelivery: number) {
      const world = new FunctionWorld();
      world.start('connection-ensure');
      const sleeper = sleeperOf(world, atDelivery);
      const epoch = await world.announce(['liqo-tunnel']);
      /** The server waits for an ack as long as it may, and gives the event to another replica. */
      const replace = async () => {
        world.start('tunnel-status');
        await world.clock.advance(6_000);
      };
      return { world, epoch, sleeper, replace };
    }

    it('writes nothing of an observation', async () => {
      const { world, epoch, sleeper, replace } = await worldWithSleeper(3);
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
      await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
      await replace();
      expect(world.tunnel()?.value).toBe('Error');
      await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'pong' });
      const { resourceVersion } = world.connection()?.metadata ?? {};
      await sleeper.wake();
      expect(world.connection()?.metadata.resourceVersion).toBe(resourceVersion);
      expect(world.tunnel()?.value).toBe('Connected');
    });

    it('does not list the tunnel of a Connection that was made anew since', async () => {
      const { world, epoch, sleeper, replace } = await worldWithSleeper(1);
      await replace();
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
      expect(world.tunnel()?.value).toBe('Connected');
      world.kubernetes.deleteConnection(REF);
      await world.announce(['liqo-tunnel'], { epoch });
      await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong' });
      expect(world.tunnel()?.value).toBe('Connected');
      await sleeper.wake();
      expect(world.count('tunnel-status', 'stale')).toBe(1);
      await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'down' });
      expect(world.tunnel()?.value).toBe('Error');
    });

    it('says no gateway silent that has spoken since', async () => {
      const { world, epoch, sleeper, replace } = await worldWithSleeper(3);
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
      await world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, silentOf(world, epoch));
      await world.clock.settle();
      await replace();
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
      await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong' });
      expect(world.tunnel()?.value).toBe('Connected');
      await sleeper.wake();
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.count('tunnel-status', 'stale')).toBe(1);
    });
  });

  it('reads and judges again on a conflict, and writes once', async () => {
    const world = new FunctionWorld();
    world.start('connection-ensure');
    let conflicts = 3;
    world.start('tunnel-status', {
      connections: (store) => ({
        get: (...call) => store.get(...call),
        ensure: (...call) => store.ensure(...call),
        removeTunnel: (...call) => store.removeTunnel(...call),
        applyAggregate: (...call) => store.applyAggregate(...call),
        async applyTunnel(...call) {
          if (conflicts-- > 0) throw new StoreError('conflict', 'somebody was first', { status: 409 });
          return store.applyTunnel(...call);
        },
      }),
    });
    const epoch = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    expect(world.tunnel()?.value).toBe('Connected');
    expect(world.meter.of('wg_keepalive_api_writes_total', 'tunnel-status', '409')).toBe(3);
    expect(world.meter.of('wg_keepalive_api_writes_total', 'tunnel-status', '200')).toBe(1);
  });

  it('asks the API anew where it slept through the time of its attempt: that says nothing against the API', async () => {
    const world = new FunctionWorld();
    world.start('connection-ensure');
    let sleeps = true;
    world.start('tunnel-status', {
      connections: (store) => ({
        ...passingStore(store),
        async applyTunnel(...call) {
          if (!sleeps) return store.applyTunnel(...call);
          sleeps = false;
          await world.clock.sleep(4_000);
          throw new StoreError('unavailable', 'the call was given up');
        },
      }),
    });
    const epoch = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    await world.clock.advance(4_000);
    expect(world.tunnel()?.value).toBe('Connected');
    expect([world.count('tunnel-status', 'written'), world.count('tunnel-status', 'failed')]).toEqual([1, 0]);
  });

  it('leaves a refused write to the next observation, after a pause that grows', async () => {
    const world = new FunctionWorld();
    world.start('connection-ensure');
    let refusing = true;
    const attemptsAt: number[] = [];
    world.start('tunnel-status', {
      connections: (store) => ({
        ensure: (...call) => store.ensure(...call),
        removeTunnel: (...call) => store.removeTunnel(...call),
        applyAggregate: (...call) => store.applyAggregate(...call),
        applyTunnel: (...call) => store.applyTunnel(...call),
        async get(...call) {
          attemptsAt.push(world.clock.monotonicMs());
          if (refusing) throw new StoreError('unavailable', 'no answer', { status: 503 });
          return store.get(...call);
        },
      }),
    });
    const epoch = await world.announce(['liqo-tunnel']);
    for (let sequence = 1; sequence <= 20; sequence++) {
      await world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong' });
      await world.clock.advance(500);
    }
    expect(attemptsAt).toEqual([0, 1_000, 3_000, 7_000]);
    expect(world.count('tunnel-status', 'failed')).toBe(20);
    refusing = false;
    await world.clock.advance(10_000);
    await world.observe({ gatewayEpoch: epoch, sequence: 21, kind: 'pong' });
    expect(world.tunnel()?.value).toBe('Connected');
  });

  it('shows that a gateway is silent again, where somebody edited what it showed', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    const silence = async () => {
      await world.publish(observationSubject(REF, 'liqo-tunnel'), OBSERVATION_TYPE, silentOf(world, epoch));
      await world.clock.settle();
    };
    await silence();
    const { resourceVersion } = world.connection()?.metadata ?? {};
    await silence();
    expect(world.connection()?.metadata.resourceVersion).toBe(resourceVersion);
    world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({
      ...status,
      tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Connected' }],
    }));
    await silence();
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
  });

  it('loses nothing when a replica dies with an event in its hands', async () => {
    const { world, epoch, replica } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    await replica.crash();
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Connected');
    world.start('tunnel-status');
    await world.clock.advance(6_000);
    expect(world.tunnel()?.value).toBe('Error');
  });

  it.each([
    ['kept the state', 'state'],
    ['published the decision', 'bus'],
  ])('says of what it wrote that it did, though it died before it %s', async (_what, diesAt) => {
    const world = new FunctionWorld();
    world.start('connection-ensure');
    const epoch = await world.announce(['liqo-tunnel']);
    const never = () => new Promise<never>(() => {});
    let isDying = false;
    const replica = world.start('tunnel-status', {
      state: (state) => ({
        get: (...call) => state.get(...call),
        put: async (...call) => (isDying && diesAt === 'state' ? never() : state.put(...call)),
        delete: (...call) => state.delete(...call),
      }),
      bus: (bus) => ({
        ...passingBus(bus),
        publish: async (...call) => (isDying && diesAt === 'bus' ? never() : bus.publish(...call)),
      }),
    });
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    isDying = true;
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Error');
    await replica.crash();
    world.start('tunnel-status');
    await world.clock.advance(6_000);
    const written = world.decisions.filter(
      ({ function: by, outcome }) => by === 'tunnel-status' && outcome === 'written',
    );
    expect(written.map(({ reason, eventId }) => [reason, eventId])).toEqual([
      ['Transition', `run-${epoch}.liqo-tunnel.1`],
      ['Transition', `run-${epoch}.liqo-tunnel.2`],
    ]);
    expect(written.at(-1)?.after).toEqual(world.tunnel());
    expect(world.meter.of('wg_keepalive_api_writes_total', 'tunnel-status', '200')).toBe(2);
  });

  it('shows a tunnel that is not pinged as Connected without a latency', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'unmonitored', reason: 'Unmonitored' });
    expect(world.tunnel()).toMatchObject({ value: 'Connected', reason: 'Unmonitored' });
    expect(world.tunnel()).not.toHaveProperty('latency');
  });

  it.each([
    ['a negative round trip', { rttNs: -120 }, '/rttNs'],
    ['no number', { rttNs: 'abc' }, '/rttNs'],
    ['a round trip of years', { rttNs: 1e18 }, '/rttNs'],
    ['an unknown kind', { kind: 'pang' }, 'kind'],
    ['no epoch', { gatewayEpoch: undefined }, 'gatewayEpoch'],
  ])('keeps an event with %s as a dead letter, with the path, once', async (_name, fault, path) => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', ...(fault as object) });
    await world.clock.advance(60_000);
    const letters = await world.lastMessages('DEAD_LETTERS', 'dead.tunnel-status');
    expect(letters).toHaveLength(1);
    const letter = JSON.parse(Buffer.from(letters[0]?.data ?? []).toString());
    expect(letter).toMatchObject({ function: 'tunnel-status', reason: 'SchemaViolation', stream: 'OBSERVATIONS' });
    expect(letter.message).toContain(path);
    expect(world.count('tunnel-status', 'invalid')).toBe(1);
    expect(world.tunnel()?.value).toBe('Connecting');
  });

  it('publishes a decision for what was written, stale or orphaned, and the throttled ones as a count', async () => {
    const { world, epoch } = await worldWithTunnel();
    for (let sequence = 1; sequence <= 4; sequence++) {
      await world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong' });
    }
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'pong', interfaceId: 'liqo-tunnel7' });
    await world.observe({ gatewayEpoch: epoch, sequence: 5, kind: 'down', reason: 'NoPong' });
    const told = world.decisions.filter((decision) => decision.function === 'tunnel-status');
    expect(told.map(({ outcome, reason, interfaceId }) => [outcome, reason, interfaceId])).toEqual([
      ['throttled', 'Listed', 'liqo-tunnel'],
      ['written', 'Transition', 'liqo-tunnel'],
      ['orphan', 'NotListed', 'liqo-tunnel7'],
      ['written', 'Transition', 'liqo-tunnel'],
    ]);
    expect(told.at(-1)).toMatchObject({ throttledSince: 3, before: { value: 'Connected' }, after: { value: 'Error' } });
  });

  it('does not bring back an entry that somebody took away; ensure does', async () => {
    const { world, epoch } = await worldWithTunnel();
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    world.kubernetes.foreignPut(REF, 'kubectl-edit', ({ tunnels: _, ...status }) => status);
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down' });
    expect(world.tunnel()).toBeUndefined();
    world.start('connection-watch');
    await world.clock.advance(1_000);
    expect(world.tunnel()?.value).toBe('Connecting');
    await world.observe({ gatewayEpoch: epoch, sequence: 3, kind: 'down' });
    expect(world.tunnel()?.value).toBe('Error');
  });
});
