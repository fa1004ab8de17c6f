import { describe, expect, test } from 'vitest';
import { launchNatsCluster } from '../../infra/servers/launch-nats.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { observationSubject, observationsFilter } from '../../shared/domain/subjects.ts';
import { partitionConsumers } from '../../shared/domain/topology.ts';
import type { Delivery } from '../../shared/ports/event-bus.ts';
import { eventually } from '../support/eventually.ts';
import { SETUP_FOR_TESTS } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const CONSUMERS = partitionConsumers('cluster-test');
const CONNECTIONS = Array.from({ length: 40 }, (_, n) => ({ namespace: `tenant-${n}`, name: `gw-${n % 7}` }));
const LIMIT_MS = 60_000;

await describeReal('a NATS cluster', ['nats-server'], () => {
  describe('of three servers', { timeout: 180_000 }, () => {
    test('stores after what was read only where nothing came since, and a repeat never', async () => {
      await using cluster = await launchNatsCluster(3);
      const bus = NatsBus.open({ servers: cluster.urls, name: 'test' }, systemClock, silentLogger);
      await bus.link.whenUp();
      await setupBus(bus.link.connection, { ...SETUP_FOR_TESTS(CONSUMERS), replicas: 3 });
      const [ref] = CONNECTIONS as [ConnectionRef, ...unknown[]];
      const event = (id: string) =>
        encodeCloudEvent(observationSubject(ref, 'liqo-tunnel'), {
          ...{ id, source: '/test', type: 'test', data: {} },
        });
      const filter = observationsFilter(ref);
      const { sequence } = await bus.publish(event('first'));
      const second = await bus.publishAfter(event('second'), { filter, sequence });
      expect(second).toMatchObject({ duplicate: false });
      expect(await bus.publishAfter(event('third'), { filter, sequence })).toBeUndefined();
      // Here the id is looked at first, unlike on a single server.
      expect(await bus.publishAfter(event('second'), { filter, sequence })).toEqual({ ...second, duplicate: true });
      await bus.close();
    });

    test('loses nothing and goes on in order when its leaders are killed', async () => {
      await using cluster = await launchNatsCluster(3);
      const connect = async () => {
        const bus = NatsBus.open({ servers: cluster.urls, name: 'test' }, systemClock, silentLogger);
        await bus.link.whenUp();
        return bus;
      };
      const buses = await Promise.all([connect(), connect(), connect()]);
      const [publisher, ...replicas] = buses as [NatsBus, ...NatsBus[]];
      const options = { ...SETUP_FOR_TESTS(CONSUMERS), replicas: 3 };
      await setupBus(publisher.link.connection, options);

      const stop = new AbortController();
      const seen = new Map<string, number[]>();
      const handle = async ({ subject, data }: Delivery) => {
        const { n } = JSON.parse(new TextDecoder().decode(data));
        seen.set(subject, [...(seen.get(subject) ?? []), n]);
        return { kind: 'ack' } as const;
      };
      const ended = replicas.flatMap((bus) => CONSUMERS.map((spec) => bus.consume(spec, handle, stop.signal)));

      let round = 0;
      const publishRound = async () => {
        const n = round++;
        for (const [index, ref] of CONNECTIONS.entries()) {
          const id = `${index}.${n}`;
          const message = encodeCloudEvent(observationSubject(ref, 'liqo-tunnel'), {
            ...{ id, source: '/test', type: 'test', data: { n } },
          });
          const publish = () => publisher.publish(message, { timeoutMs: 2_000 });
          await eventually(() => publish().then(Boolean, () => false), `event ${id} to be stored`, LIMIT_MS);
        }
      };
      const allSeen = () => [...seen.values()].filter((list) => list.includes(round - 1)).length === CONNECTIONS.length;

      await publishRound();
      await eventually(allSeen, 'the first events', LIMIT_MS);
      for (let kill = 0; kill < 2; kill++) {
        const victim = cluster.servers.find(({ url }) => url.endsWith(publisher.link.connection.getServer()));
        expect(victim).toBeDefined();
        await victim?.kill('SIGKILL');
        await publishRound();
        await eventually(allSeen, 'events after a kill', LIMIT_MS);
        await victim?.restart();
        await publishRound();
        await eventually(allSeen, 'events after the restart', LIMIT_MS);
      }
      for (const list of seen.values()) expect([...new Set(list)]).toEqual(Array.from({ length: round }, (_, n) => n));

      stop.abort();
      await Promise.all(ended);
      await Promise.all(buses.map((bus) => bus.close()));
    });
  });
});
