import type { JetStreamManager } from '@nats-io/jetstream';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { consumerConfig } from '../../shared/adapters/nats-config.ts';
import { ConsumerRecovery } from '../../shared/adapters/nats-consumer-recovery.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import type { ConsumerSpec } from '../../shared/domain/topology.ts';
import type { StoredMessage } from '../../shared/ports/event-bus.ts';
import { type NatsHarness, SETUP_FOR_TESTS, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const SHARED: ConsumerSpec = {
  durable: 'recovered',
  stream: 'DECISIONS',
  filterSubjects: ['decisions.recovered.*'],
  maxAckPending: 8,
  ackWaitMs: 60_000,
  maxDeliver: 20,
};
const ORDERED: ConsumerSpec = { ...SHARED, maxAckPending: 1 };

await describeReal('a consumer that was deleted', ['nats-server'], () => {
  describe('is made anew', { timeout: 60_000 }, () => {
    let harness: NatsHarness;
    let bus: NatsBus;
    let connection: NatsConnection;
    let manager: JetStreamManager;
    let clock: VirtualClock;

    beforeEach(async () => {
      harness = await startNatsHarness();
      bus = await harness.connect();
      connection = bus.link.connection;
      manager = await jetstreamManager(connection);
      clock = new VirtualClock();
    });
    afterEach(() => harness[Symbol.asyncDispose]());

    const publish = async (count: number) => {
      for (let n = 0; n < count; n++) await jetstream(connection).publish('decisions.recovered.gw');
    };
    /** Takes the next message as some replica, and acknowledges it or keeps it. */
    const next = async (isAcked = true): Promise<number> => {
      const consumer = await jetstream(connection).consumers.get(SHARED.stream, SHARED.durable);
      const message = await consumer.next();
      if (isAcked) await message?.ackAck();
      return message?.seq ?? 0;
    };
    const lastStored = async () => (await bus.lastMessages(SHARED.stream, 'decisions.recovered.*'))[0] as StoredMessage;
    /** Where it starts after somebody deleted it; `undefined`: at the first message. */
    const startAfterDeletion = async (recovery: ConsumerRecovery, { stream, durable } = SHARED) => {
      await manager.consumers.delete(stream, durable);
      expect(await recovery.mend(connection)).toBeUndefined();
      return (await manager.consumers.info(stream, durable)).config.opt_start_seq;
    };

    test('from behind what all replicas have settled, as the server knew it at the last look', async () => {
      const recovery = new ConsumerRecovery(SHARED, clock);
      await manager.consumers.add(SHARED.stream, consumerConfig(SHARED));
      await publish(4);
      await next();
      const held = await next(false);
      await next();
      recovery.settled(await lastStored()); // of what other replicas hold, this says nothing
      await recovery.look(connection);
      expect(await startAfterDeletion(recovery)).toBe(held);

      for (let n = held; n <= 4; n++) await next();
      await recovery.look(connection);
      expect(await startAfterDeletion(recovery)).toBe(held);

      for (let n = held; n <= 4; n++) await next();
      await clock.advance(30_000);
      await recovery.look(connection);
      expect(await startAfterDeletion(recovery)).toBe(5);
    });

    test('from the first message where no look has told anything, or one into a consumer that is gone', async () => {
      const recovery = new ConsumerRecovery(SHARED, clock);
      await recovery.look(connection);
      await manager.consumers.add(SHARED.stream, consumerConfig(SHARED));
      await publish(1);
      await next();
      expect(await startAfterDeletion(recovery)).toBeUndefined();
    });

    test('by an older look where the newest one failed', async () => {
      const recovery = new ConsumerRecovery(SHARED, clock);
      await manager.consumers.add(SHARED.stream, consumerConfig(SHARED));
      await publish(1);
      await next();
      await recovery.look(connection);
      await manager.consumers.delete(SHARED.stream, SHARED.durable);
      await clock.advance(30_000);
      await recovery.look(connection);
      expect(await recovery.mend(connection)).toBeUndefined();
      const { config } = await manager.consumers.info(SHARED.stream, SHARED.durable);
      expect(config.opt_start_seq).toBe(2);
    });

    test('from behind what this replica settled last where one message at a time is in work', async () => {
      const recovery = new ConsumerRecovery(ORDERED, clock);
      await manager.consumers.add(ORDERED.stream, consumerConfig(ORDERED));
      await publish(1);
      recovery.settled(await lastStored());
      await publish(1);
      await recovery.look(connection);
      expect(await startAfterDeletion(recovery, ORDERED)).toBe(2);
    });

    test('from the first message of a stream that was made anew itself', async () => {
      for (const spec of [SHARED, ORDERED]) {
        const recovery = new ConsumerRecovery(spec, clock);
        await manager.consumers.add(spec.stream, consumerConfig(SHARED));
        await publish(1);
        await next();
        await recovery.look(connection);
        recovery.settled(await lastStored());
        await manager.streams.delete(spec.stream);
        await setupBus(connection, SETUP_FOR_TESTS([spec]));
        await publish(9); // beyond what was settled of the old stream
        expect(await startAfterDeletion(recovery, spec)).toBeUndefined();
        await manager.consumers.delete(spec.stream, spec.durable);
      }
    });
  });
});
