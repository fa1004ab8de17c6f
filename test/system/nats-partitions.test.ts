import { setTimeout as sleep } from 'node:timers/promises';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchNatsServers, type NatsCluster } from '../../infra/servers/launch-nats.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { type BusSetupOptions, setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { partitionConsumers, partitionsIn, sharedConsumer } from '../../shared/domain/topology.ts';
import type { Delivery } from '../../shared/ports/event-bus.ts';
import { OutboxSender } from '../../shared/runtime/outbox-sender.ts';
import { eventually } from '../support/eventually.ts';
import { type NatsHarness, SETUP_FOR_TESTS, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const FUNCTION = 'tunnel-status';
const GATEWAYS = 24;
const INTERFACES = ['liqo-tunnel', 'liqo-tunnel1'];
const EVERY_MS = 20;
const MAX_BACKLOG = 2_000;
const LIMIT_MS = 60_000;

const consumersOf = (partitions: number) => partitionConsumers(FUNCTION, partitions);
const setupFor = (partitions: number, replicas = 1): BusSetupOptions => ({
  ...SETUP_FOR_TESTS(consumersOf(partitions)),
  ...{ partitions, replicas, drainTimeoutMs: LIMIT_MS }, // on a machine under load
});

await describeReal('the number of partitions', ['nats-server'], () => {
  describe.each([
    {
      servers: 1,
      moves: [
        { from: 16, to: 5 },
        { from: 5, to: 40 },
      ],
    },
    { servers: 3, moves: [{ from: 16, to: 5 }] },
  ])('changes on $servers servers while gateways speak and replicas handle what they say', ({ servers, moves }) => {
    let nats: NatsCluster;
    const clients: NatsBus[] = [];
    let gateways: Fleet;
    /** Stream sequences in the order in which they were handled, by Connection. */
    const handled = new Map<string, number[]>();
    const events = new Set<number>();
    const partitionsOf = new Map<string, Set<string>>();

    beforeAll(async () => {
      nats = await launchNatsServers(servers);
      await setUp(await connect(), 16);
      gateways = new Fleet(await connect());
    });
    afterAll(async () => {
      await Promise.all(clients.map((client) => client.close()));
      await nats[Symbol.asyncDispose]();
    });

    async function connect(): Promise<NatsBus> {
      const bus = NatsBus.open({ servers: nats.urls, name: 'test' }, systemClock, silentLogger);
      clients.push(bus);
      await bus.link.whenUp();
      return bus;
    }

    const setUp = (bus: NatsBus, partitions: number) => setupBus(bus.link.connection, setupFor(partitions, servers));

    /** A replica of a release with so many partitions. */
    async function startReplica(partitions: number): Promise<() => Promise<void>> {
      const bus = await connect();
      const stop = new AbortController();
      const handle = async ({ subject, streamSequence }: Delivery) => {
        const [, partition = '', namespace = '', connection = ''] = subject.split('.');
        const key = `${namespace}/${connection}`;
        await sleep(Math.random() * 5); // two at a time of one Connection would overtake each other
        handled.set(key, [...(handled.get(key) ?? []), streamSequence]);
        events.add(streamSequence);
        partitionsOf.set(key, (partitionsOf.get(key) ?? new Set()).add(partition));
        return { kind: 'ack' } as const;
      };
      const loops = consumersOf(partitions).map((spec) => bus.consume(spec, handle, stop.signal));
      return async () => {
        stop.abort();
        await Promise.all(loops);
      };
    }

    /** Until replicas have handled so much more. */
    const untilMore = async (more: number) => {
      const want = events.size + more;
      await eventually(() => events.size >= want, `${more} more events`, LIMIT_MS);
    };

    test.for(moves)(
      'from $from to $to: each event is handled once, and in order',
      { timeout: 3 * LIMIT_MS },
      async ({ from, to }) => {
        const setup = await connect();
        const old = await Promise.all([startReplica(from), startReplica(from)]);
        gateways.start(() => gateways.said - events.size);
        await untilMore(1_000);
        const changes = await setUp(setup, to); // replicas of the old release go on
        expect(changes).toContainEqual({
          ...{ kind: 'stream', name: 'OBSERVATIONS', change: 'updated', fields: ['subject_transform'] },
        });
        await untilMore(50); // of 40 partitions the old ones handle five
        const now = await Promise.all([startReplica(to), startReplica(to)]); // a rolling upgrade: for a while both are there
        await untilMore(500);
        await Promise.all(old.map((end) => end()));
        await untilMore(1_000);
        expect(await gateways.stop()).toEqual({ unsent: 0, coalesced: 0, superseded: 0 });
        await eventually(() => events.size === gateways.said, 'all that was said to be handled', LIMIT_MS);
        await Promise.all(now.map((end) => end()));

        for (const [key, sequences] of handled) {
          const inOrder = [...new Set(sequences)].sort((a, b) => a - b);
          // A leader that changes, as it may on a machine under load, hands out again what was not settled by then.
          expect(servers === 1 ? sequences : [...new Set(sequences)], key).toEqual(inOrder);
        }
        // Replicas of the old release make their consumers again when these go; nobody does so any more.
        await setUp(setup, to);
        expect(await consumerNames(setup.link.connection)).toEqual(
          consumersOf(to)
            .map(({ durable }) => durable)
            .sort(),
        );
        // Replicas of the old release did not make theirs again.
        expect((await setUp(setup, to)).filter(({ change }) => change !== 'unchanged')).toEqual([]);
      },
    );

    test('moved most Connections to other partitions', () => {
      const moved = [...partitionsOf.values()].filter(({ size }) => size > 1);
      expect(moved.length).toBeGreaterThan(GATEWAYS / 2);
    });
  });

  describe('does not change', () => {
    let harness: NatsHarness;
    let bus: NatsBus;
    let gateways: Fleet;

    beforeAll(async () => {
      harness = await startNatsHarness();
      bus = await harness.connect();
      await setupBus(bus.link.connection, setupFor(16));
      gateways = new Fleet(await harness.connect());
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    test('while events wait that nobody handles: the old ones go on, and the message says what to do', async () => {
      gateways.start();
      await eventually(() => gateways.said > 200, 'some events', LIMIT_MS);
      await expect(setupBus(bus.link.connection, { ...setupFor(8), drainTimeoutMs: 300 })).rejects.toMatchObject({
        code: 'SETUP_BACKLOG',
        message: expect.stringMatching(
          /^stream OBSERVATIONS: its partitions cannot change while events wait in (tunnel-status-\d+ \d+(, )?)+: let the functions .*nats stream purge OBSERVATIONS$/,
        ),
      });
      expect(await gateways.stop()).toMatchObject({ unsent: 0 }); // it is open again
      expect(await partitionsStored(bus.link.connection)).toBe(16);
    });

    test('halfway: what a run left closed when it was killed, the next one finishes', async () => {
      const manager = await managerOf(bus.link.connection);
      const { config } = await manager.streams.info('OBSERVATIONS');
      await manager.streams.update('OBSERVATIONS', { ...config, subjects: ['closed.OBSERVATIONS'] });
      await manager.streams.purge('OBSERVATIONS');
      gateways.start();
      await setupBus(bus.link.connection, setupFor(8));
      expect(await gateways.stop()).toMatchObject({ unsent: 0 });
      expect(await partitionsStored(bus.link.connection)).toBe(8);
    });

    test('and is opened again by a setup of the old release, where nobody wants the change any more', async () => {
      const manager = await managerOf(bus.link.connection);
      const { config } = await manager.streams.info('OBSERVATIONS');
      await manager.streams.update('OBSERVATIONS', { ...config, subjects: ['closed.OBSERVATIONS'] });
      await setupBus(bus.link.connection, setupFor(8));
      expect((await manager.streams.info('OBSERVATIONS')).config.subjects).toEqual(config.subjects);
    });
  });

  describe('setup', () => {
    test('removes consumers of ours that no function has any more, and no others', async () => {
      await using harness = await startNatsHarness([
        ...consumersOf(16),
        sharedConsumer('gone', 'CHANGES', ['changes.*.*.*']),
      ]);
      const { connection } = (await harness.connect()).link;
      const manager = await managerOf(connection);
      await manager.consumers.add('OBSERVATIONS', { durable_name: 'somebodys', ack_policy: 'explicit' });
      const changes = await setupBus(connection, SETUP_FOR_TESTS(consumersOf(16)));
      expect(changes.filter(({ change }) => change !== 'unchanged')).toEqual([
        { kind: 'consumer', name: 'CHANGES/gone', change: 'removed', fields: [] },
      ]);
      expect(await consumerNames(connection)).toContain('somebodys');
    });
  });
});

/** Gateways with an outbox each, which say something of each tunnel all the time. */
class Fleet {
  /** Observations that were put into outboxes since the beginning. */
  said = 0;
  readonly #bus: NatsBus;
  #senders: readonly OutboxSender[] = [];
  #speaking: { readonly stop: AbortController; readonly done: Promise<void> } | undefined;

  constructor(bus: NatsBus) {
    this.#bus = bus;
  }

  /** @param backlog - what is not handled yet: a machine under load gets no more than it can bear. @defaultValue nothing */
  start(backlog = () => 0): void {
    const ports = { bus: this.#bus, clock: systemClock, onFailure: () => {} };
    this.#senders = Array.from({ length: GATEWAYS }, (_, n) => {
      const [namespace, gatewayName] = [`tenant-${n % 5}`, `gateway-${n}`];
      const identity = { namespace, gatewayName, connection: `gw-${gatewayName}`, mode: 'server' } as const;
      return new OutboxSender({ ...identity, remoteClusterId: 'milan' }, crypto.randomUUID(), INTERFACES, ports);
    });
    const stop = new AbortController();
    this.#speaking = { stop, done: this.#speak(stop.signal, backlog) };
  }

  /** Ends the runs; what could not be stored, or was not said in full. */
  async stop(): Promise<{ unsent: number; coalesced: number; superseded: number }> {
    this.#speaking?.stop.abort();
    await this.#speaking?.done;
    const unsent = await Promise.all(this.#senders.map((sender) => sender.close(LIMIT_MS)));
    const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
    return {
      unsent: sum(unsent),
      coalesced: sum(this.#senders.map(({ coalesced }) => coalesced)),
      superseded: sum(this.#senders.map(({ superseded }) => superseded)),
    };
  }

  async #speak(signal: AbortSignal, backlog: () => number): Promise<void> {
    for (let sequence = 1; !signal.aborted; sequence++) {
      while (backlog() > MAX_BACKLOG && !signal.aborted) await sleep(EVERY_MS);
      const pong = { sequence, monotonicMs: sequence, kind: 'pong', value: 'Connected', rttNs: 1_000_000 } as const;
      for (const sender of this.#senders) {
        sender.add(INTERFACES.map((interfaceId) => ({ ...pong, interfaceId, observedAtUnixMs: systemClock.unixMs() })));
        this.said += INTERFACES.length;
      }
      await sleep(EVERY_MS, undefined, { signal }).catch(() => {});
    }
  }
}

function managerOf(connection: NatsConnection): Promise<JetStreamManager> {
  return jetstreamManager(connection, { checkAPI: false });
}

async function consumerNames(connection: NatsConnection): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of (await managerOf(connection)).consumers.list('OBSERVATIONS')) names.push(name);
  return names.sort();
}

/** As the stream stores what comes. */
async function partitionsStored(connection: NatsConnection): Promise<number | undefined> {
  const { config } = await (await managerOf(connection)).streams.info('OBSERVATIONS');
  return partitionsIn(config.subject_transform?.dest ?? '');
}
