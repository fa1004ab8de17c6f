import { jetstreamManager } from '@nats-io/jetstream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { decisionSubject } from '../../shared/domain/subjects.ts';
import type { ConsumerSpec } from '../../shared/domain/topology.ts';
import type { Settlement } from '../../shared/ports/event-bus.ts';
import { eventually } from '../support/eventually.ts';
import { type NatsHarness, SETUP_FOR_TESTS, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';

const ACK: Settlement = { kind: 'ack' };
/** Enough that chance alone leaves no replica without some: once in 10 million runs. */
const PARTITIONS = 32;
const EVENTS = 40;

/** Who handled the events of each partition, in order. */
type Handled = Map<string, string[]>;

await describeReal('replicas on NATS', ['nats-server'], () => {
  describe('share the partitions', { timeout: 120_000 }, () => {
    let harness: NatsHarness;
    let publisher: NatsBus;
    let cases = 0;
    let events = 0;

    beforeAll(async () => {
      harness = await startNatsHarness();
      publisher = await harness.connect();
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    const partitionsOf = (count: number): readonly ConsumerSpec[] => {
      cases += 1;
      return Array.from({ length: count }, (_, n) => ({
        durable: `shared-${cases}-${n}`,
        stream: 'DECISIONS',
        filterSubjects: [decisionSubject({ namespace: `case-${cases}`, name: `gw-${n}` })],
        ...{ maxAckPending: 1, ackWaitMs: 2_000, maxDeliver: 20 },
      }));
    };
    const publishTo = (specs: readonly ConsumerSpec[]) =>
      Promise.all(
        specs.map(({ filterSubjects: [subject = ''] }) =>
          publisher.publish(encodeCloudEvent(subject, { id: `${++events}`, source: '/test', type: 'test', data: {} })),
        ),
      );
    const replica = async (name: string, specs: readonly ConsumerSpec[], handled: Handled, settlement = ACK) => {
      const bus = await harness.connect();
      const stop = new AbortController();
      const loops = specs.map((spec) =>
        bus.consume(
          spec,
          async () => {
            handled.set(spec.durable, [...(handled.get(spec.durable) ?? []), name]);
            return settlement;
          },
          stop.signal,
        ),
      );
      const end = async () => {
        stop.abort();
        await Promise.all(loops);
      };
      return { bus, end, [Symbol.asyncDispose]: end };
    };
    const countOf = (handled: Handled) => [...handled.values()].reduce((sum, { length }) => sum + length, 0);

    test('each stays with one of them, all have some, and the rest get those of one that dies', async () => {
      const specs = partitionsOf(PARTITIONS);
      const handled: Handled = new Map();
      const victim = await replica('victim', specs, handled);
      await using _other = await replica('other', specs, handled);
      await publishTo(specs); // makes the consumers
      await eventually(() => countOf(handled) === PARTITIONS, 'the first events');
      handled.clear();
      for (let n = 0; n < EVENTS; n++) await publishTo(specs);
      await eventually(() => countOf(handled) === PARTITIONS * EVENTS, 'all events');
      const shareOfVictim = specs.map(({ durable }) => {
        const names = handled.get(durable) ?? [];
        return names.filter((name) => name === 'victim').length / names.length;
      });
      // Two that drew the same take turns for a while, and now and then one is between two pulls.
      const kept = shareOfVictim.filter((share) => share < 0.1 || share > 0.9);
      expect(kept.length).toBeGreaterThan(PARTITIONS / 2);
      expect(kept).toContainEqual(expect.closeTo(0, 0));
      expect(kept).toContainEqual(expect.closeTo(1, 0));

      await victim.bus.close(); // without a word, what it holds included
      handled.clear();
      await publishTo(specs);
      await eventually(() => specs.every(({ durable }) => handled.has(durable)), 'every partition to go on');
      expect(new Set([...handled.values()].flat())).toEqual(new Set(['other']));
    });

    test('two that drew the same for one draw again, until they do not take turns any more', async () => {
      const specs = partitionsOf(PARTITIONS); // of so many, some are drawn alike: all but once in 40 runs
      const handled: Handled = new Map();
      await using _one = await replica('one', specs, handled);
      await using _two = await replica('two', specs, handled);
      const changesOf = ({ durable }: ConsumerSpec) => {
        const names = handled.get(durable)?.slice(-EVENTS) ?? [];
        return names.filter((name, n) => n > 0 && name !== names[n - 1]).length;
      };
      await eventually(
        async () => {
          const want = countOf(handled) + PARTITIONS * EVENTS;
          for (let n = 0; n < EVENTS; n++) await publishTo(specs);
          await eventually(() => countOf(handled) >= want, 'all events');
          return specs.every((spec) => changesOf(spec) < EVENTS / 4);
        },
        'one replica for nearly all of the last events of each partition',
        60_000,
      );
    });

    test('one that cannot do its work leaves them to the others', async () => {
      const specs = partitionsOf(PARTITIONS);
      const handled: Handled = new Map();
      await using _sick = await replica('sick', specs, handled, { kind: 'ack', failed: true });
      await publishTo(specs);
      await eventually(() => countOf(handled) === PARTITIONS, 'the first events');
      await using _well = await replica('well', specs, handled);
      const isLeft = ({ durable }: ConsumerSpec) =>
        handled.get(durable)?.slice(-5).join() === Array.from({ length: 5 }, () => 'well').join();
      await eventually(async () => {
        await publishTo(specs);
        return specs.every(isLeft);
      }, 'the last five events of every partition to be handled by the one that is well');
    });

    test('that cannot do their work, all of them, go on with it', async () => {
      const specs = partitionsOf(1);
      const handled: Handled = new Map();
      const failed: Settlement = { kind: 'ack', failed: true };
      await using _one = await replica('one', specs, handled, failed);
      await using _two = await replica('two', specs, handled, failed);
      for (let n = 0; n < EVENTS; n++) await publishTo(specs);
      await eventually(() => countOf(handled) === EVENTS, 'all events');
    });
  });

  test('setup gives the consumers of an older release their priorities, in place; until then they serve all the same', async () => {
    const spec: ConsumerSpec = {
      ...{ durable: 'older', stream: 'DECISIONS', filterSubjects: ['decisions.older.*'] },
      ...{ maxAckPending: 1, ackWaitMs: 2_000, maxDeliver: 20 },
    };
    await using harness = await startNatsHarness();
    const bus = await harness.connect();
    const { consumers } = await jetstreamManager(bus.link.connection, { checkAPI: false });
    await consumers.add(spec.stream, {
      ...{ durable_name: spec.durable, filter_subject: 'decisions.older.*', max_ack_pending: 1, max_deliver: 20 },
      ...{ ack_policy: 'explicit', ack_wait: 2e9 },
    });
    const publish = (id: string) =>
      bus.publish(encodeCloudEvent('decisions.older.gw', { id, source: '/test', type: 'test', data: {} }));
    const seen: number[] = [];
    const stop = new AbortController();
    const ended = bus.consume(
      spec,
      async ({ deliverySequence }) => {
        seen.push(deliverySequence);
        return ACK;
      },
      stop.signal,
    );
    await publish('before');
    await eventually(() => seen.length === 1, 'an event from a consumer without priorities');
    expect(await setupBus(bus.link.connection, SETUP_FOR_TESTS([spec]))).toContainEqual({
      ...{ kind: 'consumer', name: 'DECISIONS/older', change: 'updated' },
      fields: expect.arrayContaining(['priority_policy', 'priority_groups']),
    });
    await publish('after');
    await eventually(() => seen.length === 2, 'an event from the same consumer with priorities');
    expect(seen).toEqual([1, 2]);
    stop.abort();
    await ended;
  });
});
