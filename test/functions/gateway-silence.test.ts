import { describe, expect, it } from 'vitest';
import { connectionStateKey, tunnelStateKey } from '../../shared/domain/subjects.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { BusHealth, EventBus, LastRead } from '../../shared/ports/event-bus.ts';
import { FunctionWorld, REF, SETTINGS, worldWith } from '../support/function-world.ts';
import { passingBus, passingStore } from '../support/passing.ts';

const { gatewaySilentAfterMs } = SETTINGS;
const INTERVAL_MS = 2_000;

/** A gateway that pings its one tunnel, until it is told not to. */
async function speak(world: FunctionWorld, epoch: number, forMs: number, from = 1): Promise<number> {
  let sequence = from;
  for (let elapsedMs = 0; elapsedMs < forMs; elapsedMs += INTERVAL_MS) {
    await world.observe({ gatewayEpoch: epoch, sequence: sequence++, kind: 'pong' });
    await world.clock.advance(INTERVAL_MS);
  }
  return sequence;
}

async function speakingWorld(replicas = 1): Promise<{ world: FunctionWorld; epoch: number; sequence: number }> {
  const world = new FunctionWorld();
  world.startAll(replicas);
  const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
  await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', interfaceId: 'liqo-tunnel1' });
  const sequence = await speak(world, epoch, 40_000);
  return { world, epoch, sequence };
}

const OTHERS = ['connection-watch', 'connection-ensure', 'tunnel-status', 'connection-aggregate'];

/** One gateway-silence, and something that happens each time after it has read the last words. */
function worldThatReads(afterReading: () => Promise<void>): FunctionWorld {
  const world = worldWith(...OTHERS);
  world.start('gateway-silence', {
    bus: (bus) => ({
      ...passingBus(bus),
      lastMessages: async (...query) => {
        const words = await bus.lastMessages(...query);
        await afterReading();
        return words;
      },
    }),
  });
  return world;
}

const silences = (world: FunctionWorld) =>
  world.decisions.filter((decision) => decision.function === 'gateway-silence' && decision.reason === 'Silent');

describe('gateway-silence', () => {
  it.each(['it does not run', 'the API refuses it'])('watches over a gateway again after %s for hours', async (why) => {
    const world = worldWith(...OTHERS);
    let isRefused = true;
    const start = () =>
      world.start('gateway-silence', {
        connections: (store) => ({
          ...passingStore(store),
          async get(...call) {
            if (isRefused) throw new StoreError('forbidden', 'no', { status: 403 });
            return store.get(...call);
          },
        }),
      });
    if (why === 'the API refuses it') start();
    const epoch = await world.announce(['liqo-tunnel']);
    let next = await speak(world, epoch, 2 * 3_600_000);
    isRefused = false;
    if (why === 'it does not run') start();
    next = await speak(world, epoch, 300_000, next);
    expect(world.tunnel()?.value).toBe('Connected');
    await world.clock.advance(2 * gatewaySilentAfterMs);
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
  });

  it('has connection-ensure list the tunnels again where the state bucket is lost while all run', async () => {
    const { world, epoch, sequence } = await speakingWorld();
    for (const id of ['liqo-tunnel', 'liqo-tunnel1']) await world.state.delete(tunnelStateKey(REF, id));
    await world.state.delete(connectionStateKey(REF));
    world.start('tunnel-status'); // takes turns, so that what the first one remembers does not count
    const next = await speak(world, epoch, 2 * gatewaySilentAfterMs, sequence);
    await world.clock.advance(gatewaySilentAfterMs - INTERVAL_MS);
    await world.observe({ gatewayEpoch: epoch, sequence: next, kind: 'down', reason: 'NoPong' });
    await world.clock.advance(gatewaySilentAfterMs - INTERVAL_MS);
    await world.observe({ gatewayEpoch: epoch, sequence: next + 1, kind: 'down', reason: 'NoPong' });
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'NoPong' });
  });

  it('leaves a Connection alone whose gateway speaks, if only of one tunnel', async () => {
    const { world } = await speakingWorld();
    expect(silences(world)).toEqual([]);
    expect(world.connection()?.status?.value).toBe('Connected');
  });

  it.each([1, 2])('turns the tunnels of a gateway that is gone to Error, once, with %i replicas', async (replicas) => {
    const { world } = await speakingWorld(replicas);
    const lastWordMs = world.clock.monotonicMs() - INTERVAL_MS;
    await world.clock.advanceUntil(() => world.connection()?.status?.value === 'Error', 60_000);
    const tookMs = world.clock.monotonicMs() - lastWordMs;
    expect(tookMs).toBeGreaterThanOrEqual(gatewaySilentAfterMs);
    expect(tookMs).toBeLessThanOrEqual(gatewaySilentAfterMs + 100);
    for (const id of ['liqo-tunnel', 'liqo-tunnel1']) {
      expect(world.tunnel(id)).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
      expect(world.tunnel(id)).not.toHaveProperty('latency');
    }
    expect(world.tunnel()?.message).toMatch(/has said nothing since 2026-01-01T00:00:\d\d/);
    const written = world.count('tunnel-status', 'written');
    await world.clock.advance(300_000);
    expect(world.count('tunnel-status', 'written')).toBe(written);
  });

  it('gives way to the first word of the gateway, and watches on', async () => {
    const { world, epoch, sequence } = await speakingWorld();
    await world.clock.advance(60_000);
    expect(world.tunnel()?.value).toBe('Error');
    const next = await speak(world, epoch, 2_000, sequence);
    expect(world.tunnel()).toMatchObject({ value: 'Connected' });
    expect(world.tunnel()).not.toHaveProperty('reason');
    await speak(world, epoch, 40_000, next);
    expect(world.tunnel()?.value).toBe('Connected');
    await world.clock.advance(60_000);
    expect(world.tunnel()?.value).toBe('Error');
  });

  describe('while an older run of the gateway goes on to speak', () => {
    /** Both speak, the older one always last; then only the older one. */
    async function worldOfTwo() {
      const world = new FunctionWorld();
      world.startAll(2);
      const older = await world.announce(['liqo-tunnel']);
      const newer = await world.announce(['liqo-tunnel']);
      let sequence = 0;
      const run = async (forMs: number, epochs: readonly number[]) => {
        for (let elapsedMs = 0; elapsedMs < forMs; elapsedMs += INTERVAL_MS) {
          sequence++;
          for (const gatewayEpoch of epochs) await world.observe({ gatewayEpoch, sequence, kind: 'pong' });
          await world.clock.advance(INTERVAL_MS);
        }
      };
      return { world, older, newer, run };
    }

    it('does not take the newer one for silent, whoever has the last word', async () => {
      const { world, older, newer, run } = await worldOfTwo();
      await run(300_000, [newer, older]);
      expect(silences(world)).toEqual([]);
      expect(world.tunnel()?.value).toBe('Connected');
    });

    it('turns the tunnels to Error when the newer one is gone, and leaves them so when the older is, too', async () => {
      const { world, older, newer, run } = await worldOfTwo();
      await run(60_000, [newer, older]);
      await run(3 * (gatewaySilentAfterMs + SETTINGS.updateStatusIntervalMs), [older]);
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
      expect(world.tunnel()?.message).toContain(`gateway run ${newer}`);
      await world.clock.advance(300_000);
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
    });

    it('turns them to Error, too, when both are gone at once', async () => {
      const { world, older, newer, run } = await worldOfTwo();
      await run(60_000, [newer, older]);
      await world.clock.advance(3 * gatewaySilentAfterMs);
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
    });

    /** The newer one is gone; the older speaks between the first `refused` looks of each timer and what they find. */
    async function hiddenWorld(refused: number) {
      const hide = { refused: 0 };
      let [sequence, looks, lookedAtMs] = [0, 0, 0];
      const world = worldThatReads(async () => {
        looks = world.clock.monotonicMs() === lookedAtMs ? looks + 1 : 1;
        lookedAtMs = world.clock.monotonicMs();
        if (looks <= hide.refused) await world.say({ gatewayEpoch: older, sequence: ++sequence, kind: 'pong' });
      });
      const older = await world.announce(['liqo-tunnel']);
      const newer = await world.announce(['liqo-tunnel']);
      await world.observe({ gatewayEpoch: newer, sequence: 1, kind: 'pong' });
      hide.refused = refused;
      const run = async (forMs: number) => {
        for (let elapsedMs = 0; elapsedMs < forMs; elapsedMs += INTERVAL_MS) {
          await world.observe({ gatewayEpoch: older, sequence: ++sequence, kind: 'pong' });
          await world.clock.advance(INTERVAL_MS);
        }
      };
      return { world, hide, run };
    }

    it('finds the newer one silent in time, though the older speaks while it looks', async () => {
      const timesOfError = [];
      for (const refused of [0, 3]) {
        const { world, run } = await hiddenWorld(refused);
        await run(4 * (gatewaySilentAfterMs + SETTINGS.updateStatusIntervalMs));
        expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
        timesOfError.push(world.tunnel()?.lastTransitionTime);
      }
      expect(timesOfError[1]).toBe(timesOfError[0]);
    });

    it('looks again a second later where the older one is never quiet, and has not begun to wait anew', async () => {
      const { world, hide, run } = await hiddenWorld(Number.POSITIVE_INFINITY);
      await run(4 * (gatewaySilentAfterMs + SETTINGS.updateStatusIntervalMs));
      expect(world.tunnel()?.value).toBe('Connected');
      expect(world.decisions.at(-1)).toMatchObject({ function: 'gateway-silence', reason: 'SpokeMeanwhile' });
      hide.refused = 0;
      await run(INTERVAL_MS);
      expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
    });
  });

  describe('while it sleeps', () => {
    /** A gateway with two tunnels that was silent for long enough; a reader of its words who sleeps. */
    async function sleepingWorld() {
      const asleep = { until: undefined as Promise<void> | undefined };
      const world = worldThatReads(async () => asleep.until);
      const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong', interfaceId: 'liqo-tunnel1' });
      await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
      const { promise, resolve: wake } = Promise.withResolvers<void>();
      asleep.until = promise;
      await world.clock.advance(gatewaySilentAfterMs + 1_000);
      return { world, epoch, wake };
    }

    it.each(['liqo-tunnel', 'liqo-tunnel1'])(
      'hears a gateway that speaks again, if only of %s',
      async (interfaceId) => {
        const { world, epoch, wake } = await sleepingWorld();
        for (let sequence = 2; sequence < 12; sequence++) {
          await world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong', interfaceId });
          await world.clock.advance(INTERVAL_MS);
        }
        const lastWordMs = world.clock.monotonicMs() - INTERVAL_MS;
        wake();
        await world.clock.settle();
        expect(silences(world)).toEqual([]);
        expect(world.decisions.at(-1)).toMatchObject({ function: 'gateway-silence', reason: 'SpokeMeanwhile' });
        for (const id of ['liqo-tunnel', 'liqo-tunnel1']) expect(world.tunnel(id)?.value).toBe('Connected');
        await world.clock.advanceUntil(() => world.tunnel(interfaceId)?.value === 'Error', 60_000);
        expect(world.clock.monotonicMs() - lastWordMs).toBe(gatewaySilentAfterMs);
      },
    );

    it('says it all the same of one that says nothing more', async () => {
      const { world, wake } = await sleepingWorld();
      await world.clock.advance(60_000);
      expect(world.tunnel()?.value).toBe('Connected');
      wake();
      await world.clock.settle();
      for (const id of ['liqo-tunnel', 'liqo-tunnel1']) expect(world.tunnel(id)?.value).toBe('Error');
    });
  });

  it('has said it where another process said the same by the same timer, which happens once', async () => {
    const world = worldWith(...OTHERS);
    const others = new Set<string>();
    world.start('gateway-silence', {
      bus: (bus) => ({
        ...passingBus(bus),
        async publishAfter(message, last: LastRead) {
          if (!others.has(message.subject)) await bus.publish(message);
          others.add(message.subject);
          return bus.publishAfter(message, last);
        },
      }),
    });
    await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
    await world.clock.advance(gatewaySilentAfterMs + 1_000);
    expect(others.size).toBe(2);
    expect(silences(world)).toHaveLength(1);
    const said = [...world.broker.messages('OBSERVATIONS')].filter(({ headers }) =>
      headers['ce-id']?.startsWith('silent.'),
    );
    expect(said).toHaveLength(2);
    for (const id of ['liqo-tunnel', 'liqo-tunnel1']) expect(world.tunnel(id)?.value).toBe('Error');
  });

  it('gives a gateway that was listed and never spoke one delay', async () => {
    const world = new FunctionWorld();
    world.startAll();
    await world.announce(['liqo-tunnel']);
    await world.clock.advance(gatewaySilentAfterMs - 1_000);
    expect(world.tunnel()?.value).toBe('Connecting');
    await world.clock.advance(2_000);
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
  });

  it('proves nothing by a timer that comes late: it only arms the next', async () => {
    const world = new FunctionWorld();
    let lateMs = 0;
    for (const name of ['connection-watch', 'connection-ensure', 'tunnel-status']) world.start(name);
    world.start('gateway-silence', {
      bus: (bus) => ({
        ...passingBus(bus),
        schedule: (message, { dueAtUnixMs, ...rest }) =>
          bus.schedule(message, { ...rest, dueAtUnixMs: dueAtUnixMs + lateMs }),
      }),
    });
    const epoch = await world.announce(['liqo-tunnel']);
    lateMs = 10_000;
    await speak(world, epoch, 40_000);
    await world.clock.advance(200_000);
    expect(world.tunnel()?.value).toBe('Connected');
    lateMs = 0;
    await world.clock.advance(2 * (gatewaySilentAfterMs + 10_000));
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
  });

  it('turns nothing to Error for an outage of the bus alone', async () => {
    const world = new FunctionWorld();
    const outage = new Outage();
    for (const name of ['connection-watch', 'connection-ensure', 'tunnel-status', 'connection-aggregate']) {
      world.start(name);
    }
    world.start('gateway-silence', { bus: (bus) => outage.of(bus) });
    const epoch = await world.announce(['liqo-tunnel']);
    const sequence = await speak(world, epoch, 40_000);
    outage.begin();
    await world.clock.advance(100_000); // gateways keep what they see until the bus is back
    outage.end();
    await world.clock.advance(gatewaySilentAfterMs - 1_000);
    expect(world.tunnel()?.value).toBe('Connected');
    await speak(world, epoch, 60_000, sequence);
    expect(silences(world)).toEqual([]);
    await world.clock.advance(60_000);
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
  });

  it('lets its timer lapse with the Connection; a new one has a new timer', async () => {
    const { world, epoch, sequence } = await speakingWorld();
    world.kubernetes.deleteConnection(REF);
    await world.clock.advance(10);
    expect(world.connection()).toBeDefined(); // its gateway speaks, so connection-ensure made it again
    const next = await speak(world, epoch, 40_000, sequence);
    expect(world.connection()?.status?.value).toBe('Connecting'); // liqo-tunnel1 said nothing since
    expect(next).toBeGreaterThan(sequence);
    await world.clock.advance(60_000);
    expect(world.tunnel()).toMatchObject({ value: 'Error', reason: 'GatewaySilent' });
  });

  it('comes again where the API does not answer', async () => {
    const world = worldWith('connection-watch', 'connection-ensure', 'tunnel-status');
    let refusing = true;
    world.start('gateway-silence', {
      connections: (store) => ({
        ...passingStore(store),
        async get(...call) {
          if (refusing) throw new StoreError('unavailable', 'no answer', { status: 500 });
          return store.get(...call);
        },
      }),
    });
    await world.announce(['liqo-tunnel']);
    await world.clock.advance(gatewaySilentAfterMs + 5_000);
    expect(world.tunnel()?.value).toBe('Connecting');
    refusing = false;
    await world.clock.advance(30_000);
    expect(world.tunnel()?.value).toBe('Error');
  });

  it('comes again no sooner than the API wants to be asked', async () => {
    const world = worldWith('connection-watch', 'connection-ensure', 'tunnel-status');
    let asked = 0;
    world.start('gateway-silence', {
      connections: (store) => ({
        ...passingStore(store),
        async get() {
          asked += 1;
          throw new StoreError('busy', 'too many requests', { status: 429, retryAfterMs: 20_000 });
        },
      }),
    });
    await world.announce(['liqo-tunnel']);
    await world.clock.advance(gatewaySilentAfterMs + 19_000);
    expect(asked).toBe(1);
    await world.clock.advance(2_000);
    expect(asked).toBe(2);
  });
});

/** The bus as one process sees it that loses its connection. */
class Outage {
  #listeners: ((health: BusHealth) => void)[] = [];
  #health: BusHealth = { connected: true };

  of(bus: EventBus): EventBus {
    return {
      ...passingBus(bus),
      health: () => this.#health,
      onHealthChange: (listener) => {
        this.#listeners.push(listener);
        return () => {};
      },
    };
  }

  begin(): void {
    this.#set({ connected: false, reason: 'by the test' });
  }

  end(): void {
    this.#set({ connected: true });
  }

  #set(health: BusHealth): void {
    this.#health = health;
    for (const listener of this.#listeners) listener(health);
  }
}
