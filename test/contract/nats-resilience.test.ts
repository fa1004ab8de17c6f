import { readFile } from 'node:fs/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { NatsStateStore } from '../../shared/adapters/nats-state-store.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type BusMessage, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { decisionSubject } from '../../shared/domain/subjects.ts';
import type { ConsumerSpec } from '../../shared/domain/topology.ts';
import type { BusHealth, Delivery, EventBus, Settlement } from '../../shared/ports/event-bus.ts';
import { eventually } from '../support/eventually.ts';
import { type NatsHarness, SETUP_FOR_TESTS, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';

const ACK: Settlement = { kind: 'ack' };
const REF = { namespace: 'liqo-tenant', name: 'gw-a' };
const SPEC: ConsumerSpec = {
  durable: 'resilience',
  stream: 'DECISIONS',
  filterSubjects: [decisionSubject(REF)],
  maxAckPending: 1,
  ackWaitMs: 1_000,
  maxDeliver: 20,
};
const TEST_TIMEOUT_MS = 60_000;

const event = (n: number): BusMessage =>
  encodeCloudEvent(decisionSubject(REF), { id: `event-${n}`, source: '/test', type: 'test', data: { n } });
const numberOf = (delivery: Delivery): number => JSON.parse(new TextDecoder().decode(delivery.data)).n;

/** Publishes as the outbox does: again with the same id until it is acknowledged. */
async function publishSurely(bus: EventBus, n: number): Promise<void> {
  await eventually(
    () =>
      bus.publish(event(n), { timeoutMs: 1_000 }).then(
        () => true,
        () => false,
      ),
    `event ${n} to be stored`,
  );
}

await describeReal('NATS when things break', ['nats-server'], () => {
  describe('the bus', { timeout: TEST_TIMEOUT_MS }, () => {
    let harness: NatsHarness;
    let bus: NatsBus;
    let stop: AbortController;
    let handled: number[];
    const consuming: Promise<void>[] = [];
    const consume = (client: EventBus, spec = SPEC) => {
      consuming.push(
        client.consume(
          spec,
          async (delivery) => {
            handled.push(numberOf(delivery));
            return ACK;
          },
          stop.signal,
        ),
      );
    };

    /** Leaves the server alive but silent; the signal takes effect a little after it was sent. */
    const freeze = async () => {
      await harness.server.kill('SIGSTOP');
      const status = `/proc/${harness.server.pid}/stat`;
      await eventually(async () => / T /.test(await readFile(status, 'utf8')), 'the server to stand still');
    };

    beforeEach(async () => {
      harness = await startNatsHarness();
      bus = await harness.connect();
      stop = new AbortController();
      handled = [];
    });
    afterEach(async () => {
      stop.abort();
      await Promise.all(consuming.splice(0));
      await harness[Symbol.asyncDispose]();
    });

    test('goes on after each of five kills of the server, in order, with the same consumers (C21)', async () => {
      consume(bus);
      consume(await harness.connect());
      const consumerCount = async () =>
        (await (await jetstreamManager(bus.link.connection)).streams.info('DECISIONS')).state.consumer_count;
      await publishSurely(bus, 0);
      await eventually(() => handled.includes(0), 'the first event');
      const countAtStart = await consumerCount();
      let next = 1;
      for (let kill = 0; kill < 5; kill++) {
        for (const end = next + 20; next < end; next++) await publishSurely(bus, next);
        await harness.server.kill('SIGKILL');
        await eventually(() => !bus.health().connected, 'the loss to be noticed');
        await harness.server.restart();
        await publishSurely(bus, next++);
        await eventually(() => handled.includes(next - 1), `events after kill ${kill + 1}`);
      }
      // A killed server forgets the newest acks and goes back some way; each event is first seen in its turn.
      expect([...new Set(handled)]).toEqual(Array.from({ length: next }, (_, n) => n));
      expect(await consumerCount()).toBe(countAtStart);
    });

    test('rejects a publish as unavailable while the server is away, those in flight too, and recovers', async () => {
      const changes: BusHealth[] = [];
      bus.onHealthChange((health) => changes.push(health));
      await bus.publish(event(0));
      await freeze();
      const inFlight = bus.publish(event(1), { timeoutMs: 60_000 });
      inFlight.catch(() => {});
      await harness.server.kill('SIGKILL');
      await expect(inFlight).rejects.toMatchObject({ code: 'unavailable' });
      await expect(bus.publish(event(2))).rejects.toMatchObject({ code: 'unavailable' });
      await expect(bus.lastMessages('DECISIONS', decisionSubject(REF))).rejects.toMatchObject({ code: 'unavailable' });
      expect(bus.health()).toMatchObject({ connected: false, reason: expect.stringContaining('127.0.0.1') });
      await harness.server.restart();
      await eventually(() => bus.health().connected, 'the connection');
      await publishSurely(bus, 3);
      expect(changes.map(({ connected }) => connected)).toEqual([false, true]);
    });

    test('times out a publish that the server does not answer', async () => {
      await freeze();
      await expect(bus.publish(event(1), { timeoutMs: 100 })).rejects.toMatchObject({ code: 'timeout' });
      await harness.server.kill('SIGCONT');
    });

    test('connects to a server that comes up later', async () => {
      await harness.server.stop();
      const early = harness.open();
      await expect(early.publish(event(1))).rejects.toMatchObject({ code: 'unavailable' });
      consume(early);
      await harness.server.restart();
      await publishSurely(early, 1);
      await eventually(() => handled.includes(1), 'the event');
    });

    test('tells the live feed and keeps state again after the server was away', async () => {
      const state = new NatsStateStore(bus.link);
      const copies: string[] = [];
      bus.subscribe('live.decisions.>', ({ headers }) => copies.push(headers['ce-id'] ?? ''), stop.signal);
      await state.put('key', 1);
      await harness.server.stop();
      await eventually(() => !bus.health().connected, 'the loss to be noticed');
      await expect(state.get('key')).rejects.toMatchObject({ code: 'unavailable' });
      await expect(state.put('key', 2)).rejects.toMatchObject({ code: 'unavailable' });
      await harness.server.restart();
      await eventually(() => bus.health().connected, 'the connection');
      expect((await state.get('key'))?.value).toBe(1);
      await publishSurely(bus, 1);
      await eventually(() => copies.includes('event-1'), 'the copy');
    });

    test('settles after a reconnect what was handled while the server was away', async () => {
      let finish: (() => void) | undefined;
      const deliveries: number[] = [];
      const handle = (delivery: Delivery) => {
        deliveries.push(delivery.deliveryCount);
        return new Promise<Settlement>((resolve) => (finish = () => resolve(ACK)));
      };
      // An ack wait beyond the test: what ends the delivery is the late ack, and no other delivery can come instead.
      consuming.push(bus.consume({ ...SPEC, ackWaitMs: 120_000 }, handle, stop.signal));
      await publishSurely(bus, 1);
      await eventually(() => finish !== undefined, 'the event in work');
      await harness.server.stop();
      // Until the loss is noticed an ack goes to the dead connection, and the event comes again after the ack wait.
      await eventually(() => !bus.health().connected, 'the loss to be noticed');
      finish?.();
      await harness.server.restart();
      const { consumers } = await jetstreamManager(await bus.link.whenUp());
      await eventually(
        async () => (await consumers.info(SPEC.stream, SPEC.durable)).num_ack_pending === 0,
        'the ack to arrive',
      );
      expect(deliveries).toEqual([1]);
    });

    test('of slots that slow handlers hold, none is pulled for (C22)', async () => {
      const spec = { ...SPEC, maxAckPending: 4, ackWaitMs: 500 };
      const counts: number[] = [];
      const handle = async (delivery: Delivery) => {
        counts.push(delivery.deliveryCount);
        handled.push(numberOf(delivery));
        await systemClock.sleep(700); // longer than the ack wait
        return ACK;
      };
      consuming.push(bus.consume(spec, handle, stop.signal));
      for (let n = 0; n < 16; n++) await publishSurely(bus, n);
      await eventually(() => handled.length >= 16, 'all events');
      expect(counts).toEqual(Array.from({ length: 16 }, () => 1));
      expect([...handled].sort((a, b) => a - b)).toEqual(Array.from({ length: 16 }, (_, n) => n));
    });

    test('closes and ends its consumers while the server is away', async () => {
      const client = await harness.connect();
      const ended = client.consume(SPEC, async () => ACK, new AbortController().signal);
      const never = harness.open();
      await harness.server.kill('SIGKILL');
      await Promise.all([client.close(), never.close()]);
      await ended;
      expect(client.health()).toMatchObject({ connected: false, reason: 'the connection is closed' });
    });

    test('two replicas make a deleted consumer anew, once, and miss nothing (C20)', async () => {
      consume(bus);
      consume(await harness.connect());
      for (let n = 0; n < 10; n++) await publishSurely(bus, n);
      await eventually(() => handled.length === 10, 'ten events');
      for (let round = 1; round <= 3; round++) {
        await harness.deleteConsumer(SPEC);
        for (let n = 10 * round; n < 10 * round + 10; n++) await publishSurely(bus, n);
        await eventually(() => handled.includes(10 * round + 9), `the events after deletion ${round}`);
      }
      expect([...new Set(handled)]).toEqual(Array.from({ length: 40 }, (_, n) => n));
    });

    test('an event that awaits its retry is not lost with its consumer', async () => {
      const spec = { ...SPEC, maxAckPending: 64 };
      const settled: number[] = [];
      const handle = async (delivery: Delivery): Promise<Settlement> => {
        const n = numberOf(delivery);
        handled.push(n);
        // Only a consumer that knows nothing of it hands the event out again before the test ends.
        if (n === 1 && !settled.includes(3)) return { kind: 'retry', delayMs: 600_000 };
        settled.push(n);
        return ACK;
      };
      consuming.push(bus.consume(spec, handle, stop.signal));
      for (const n of [0, 1]) {
        await publishSurely(bus, n);
        await eventually(() => handled.includes(n), `event ${n}`);
      }
      for (const n of [2, 3]) await publishSurely(bus, n);
      await eventually(() => settled.includes(3), 'the events behind it');
      await harness.deleteConsumer(spec);
      await publishSurely(bus, 4);
      await eventually(() => settled.includes(4), 'the event after the deletion');
      await eventually(() => settled.includes(1), 'the event that was given back');
    });

    test('says that setup must run while its stream is missing, and goes on with a new stream from its start', async () => {
      consume(bus);
      for (let n = 0; n < 5; n++) await publishSurely(bus, n);
      await eventually(() => handled.length === 5, 'five events');
      const { streams } = await jetstreamManager(bus.link.connection);
      await streams.delete('DECISIONS');
      await eventually(() => !bus.health().connected, 'the health to show it');
      expect(bus.health()).toMatchObject({
        connected: false,
        reason: 'there is no stream DECISIONS: run `wg-keepalive setup`',
      });
      await setupBus(bus.link.connection, SETUP_FOR_TESTS());
      for (let n = 5; n < 8; n++) await publishSurely(bus, n);
      await eventually(() => handled.includes(7), 'the new events');
      expect(handled).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      await eventually(() => bus.health().connected, 'the health to recover');
    });

    test('hands on at once what it had asked for when it stops', async () => {
      const spec = { ...SPEC, ackWaitMs: 120_000 }; // longer than the test: a message left behind would stall it
      consume(await harness.connect(), spec);
      let next = 0;
      for (let round = 0; round < 10; round++) {
        const own = new AbortController();
        const client = await harness.connect();
        const ended = client.consume(
          spec,
          async (delivery) => {
            handled.push(numberOf(delivery));
            return ACK;
          },
          own.signal,
        );
        const burst = Array.from({ length: 30 }, () => bus.publish(event(next++)));
        await Promise.all(burst);
        own.abort();
        await ended;
        await client.close();
        await eventually(() => new Set(handled).size === next, `all events of round ${round}`);
      }
      expect(handled).toEqual(Array.from({ length: next }, (_, n) => n));
    });

    test('rejects as full where a stream refuses by its limits, and flows again after a purge', async () => {
      const { streams } = await jetstreamManager(bus.link.connection);
      await streams.update('DECISIONS', { discard: 'new', max_msgs: 3 });
      for (let n = 0; n < 3; n++) await bus.publish(event(n));
      await expect(bus.publish(event(3))).rejects.toMatchObject({ code: 'full', message: /maximum messages/ });
      await streams.purge('DECISIONS');
      await bus.publish(event(3));
    });

    test('names the limit that a message is over', async () => {
      const huge = { ...event(1), data: new Uint8Array(2 * 1024 * 1024) };
      await expect(bus.publish(huge)).rejects.toMatchObject({ code: 'too-large', message: /max_payload/ });
    });

    test('leaves no subscription behind after reading last messages', async () => {
      await bus.publish(event(1));
      const subscriptions = async () => {
        const response = await fetch(`${harness.server.monitorUrl}/varz`);
        return ((await response.json()) as { subscriptions: number }).subscriptions;
      };
      await bus.lastMessages('DECISIONS', 'decisions.*.*');
      const before = await subscriptions();
      for (let i = 0; i < 20; i++) {
        expect(await bus.lastMessages('DECISIONS', 'decisions.*.*')).toHaveLength(1);
        expect(await bus.lastMessages('DECISIONS', 'decisions.nobody.*')).toHaveLength(0);
      }
      await eventually(async () => (await subscriptions()) <= before, 'the subscriptions to go');
    });
  });
});
