import { describe, expect, it } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedBusStatistics } from '../../shared/adapters/embedded-bus-statistics.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { NatsBusStatistics } from '../../shared/adapters/nats-bus-statistics.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { BusUser } from '../../shared/domain/bus-user.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { deadLetterSubject, observationSubject } from '../../shared/domain/subjects.ts';
import { partitionConsumers } from '../../shared/domain/topology.ts';
import type { BusStatistics } from '../../shared/ports/bus-statistics.ts';
import type { EventBus } from '../../shared/ports/event-bus.ts';
import { eventually } from '../support/eventually.ts';
import { describeReal } from '../support/real-parts.ts';
import { SecuredNats } from '../support/secured-nats.ts';
import { silentLogger } from '../support/silent-logger.ts';

const REF = { namespace: 'liqo-tenant-rome', name: 'gw-rome' };
const PUBLISHED = 5;

function event(subject: string, id: string) {
  return encodeCloudEvent(subject, { id, source: '/test', type: 'test', data: {} });
}

/** Of five events one is taken and held: four wait. */
async function expectStatistics(gateway: EventBus, fn: EventBus, statistics: BusStatistics): Promise<void> {
  const stop = new AbortController();
  const held = Promise.withResolvers<void>();
  const consuming = partitionConsumers('tunnel-status').map((spec) =>
    fn.consume(
      spec,
      async () => {
        await held.promise;
        return { kind: 'ack' };
      },
      stop.signal,
    ),
  );
  for (let index = 0; index < PUBLISHED; index++) {
    await gateway.publish(event(observationSubject(REF, 'liqo-tunnel'), `observation-${index}`));
  }
  await fn.publish(event(deadLetterSubject('tunnel-status'), 'dead'));
  const busy = async () => {
    const { consumers, deadLetters } = await statistics.read();
    expect(deadLetters).toBe(1);
    return consumers.filter(({ delivered }) => delivered > 0);
  };
  await eventually(async () => (await busy()).some(({ waiting }) => waiting === PUBLISHED - 1), 'four that wait');
  expect(await busy()).toEqual([
    {
      ...{ stream: 'OBSERVATIONS', durable: expect.stringMatching(/^tunnel-status-\d+$/) },
      ...{ delivered: 1, waiting: PUBLISHED - 1, inWork: 1 },
    },
  ]);
  held.resolve();
  await eventually(async () => (await busy())[0]?.inWork === 0, 'all settled');
  expect(await busy()).toEqual([expect.objectContaining({ delivered: PUBLISHED, waiting: 0, inWork: 0 })]);
  stop.abort();
  await Promise.all(consuming);
}

describe('statistics of the embedded bus', () => {
  it('say what waits, what is in work, what is dead', async () => {
    const broker = new EmbeddedBroker({ clock: systemClock });
    const bus = new EmbeddedBus(broker, systemClock);
    await expectStatistics(bus, bus, new EmbeddedBusStatistics(broker));
    await bus.close();
  });
});

await describeReal('statistics of NATS', ['nats-server', 'openssl'], () => {
  it('say the same to a viewer, who may ask for nothing more', async () => {
    const users = [
      { role: 'gateway', namespace: REF.namespace },
      { role: 'function', name: 'tunnel-status' },
      { role: 'viewer' },
      { role: 'setup' },
    ] as const satisfies readonly BusUser[];
    await using nats = await SecuredNats.start(users);
    await using clients = new AsyncDisposableStack();
    const [gateway, fn, viewer] = users.slice(0, 3).map((user) => {
      const bus = NatsBus.open(nats.optionsOf(user), systemClock, silentLogger);
      clients.defer(() => bus.close());
      return bus;
    }) as [NatsBus, NatsBus, NatsBus];
    await Promise.all([gateway, fn, viewer].map((bus) => bus.link.whenUp()));
    await expectStatistics(gateway, fn, new NatsBusStatistics(viewer.link));
  });
});
