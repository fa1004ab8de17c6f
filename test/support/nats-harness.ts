import { setTimeout as sleep } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { launchNats, type NatsServer } from '../../infra/servers/launch-nats.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { type BusSetupOptions, setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { ConsumerSpec } from '../../shared/domain/topology.ts';
import type { BusHarness } from '../contract/event-bus.contract.ts';
import { eventually } from './eventually.ts';
import { silentLogger } from './silent-logger.ts';

const MIB = 1024 * 1024;
/** Small bounds: the server refuses streams whose bounds together exceed the disk. */
const MAX_BYTES = { OBSERVATIONS: 256 * MIB, CHANGES: 64 * MIB, DECISIONS: 64 * MIB, DEAD_LETTERS: 32 * MIB };

/** What the suites set up. */
export const SETUP_FOR_TESTS = (consumers: readonly ConsumerSpec[] = []): BusSetupOptions => ({
  consumers,
  maxBytes: MAX_BYTES,
  clock: systemClock,
  log: silentLogger,
});

export type NatsHarness = Omit<BusHarness, 'connect'> & {
  readonly server: NatsServer;
  connect(): Promise<NatsBus>;
  /** A client that was not waited for. */
  open(): NatsBus;
};

/** A real server with the streams of the topology (and these consumers), and clients that end with it. */
export async function startNatsHarness(consumers: readonly ConsumerSpec[] = []): Promise<NatsHarness> {
  const server = await launchNats();
  const clients: NatsBus[] = [];
  const open = (): NatsBus => {
    const client = NatsBus.open({ servers: [server.url], name: 'test' }, systemClock, silentLogger);
    clients.push(client);
    return client;
  };
  const connect = async (): Promise<NatsBus> => {
    const client = open();
    await client.link.whenUp();
    return client;
  };
  const admin = await connect();
  const manager = () => jetstreamManager(admin.link.connection, { checkAPI: false });
  await setupBus(admin.link.connection, SETUP_FOR_TESTS(consumers));
  return {
    server,
    open,
    connect,
    wait: (durationMs) => sleep(durationMs),
    until: eventually,
    unixMs: () => systemClock.unixMs(),
    deleteConsumer: async ({ stream, durable }) => {
      await (await manager()).consumers.delete(stream, durable);
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(clients.map((client) => client.close()));
      await server[Symbol.asyncDispose]();
    },
  };
}
