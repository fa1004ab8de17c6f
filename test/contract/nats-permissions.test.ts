import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { launchNats, type NatsServer } from '../../infra/servers/launch-nats.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { decisionSubject } from '../../shared/domain/subjects.ts';
import type { ConsumerSpec } from '../../shared/domain/topology.ts';
import { eventually } from '../support/eventually.ts';
import { SETUP_FOR_TESTS } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const REF = { namespace: 'ns', name: 'gw' };
const SPEC: ConsumerSpec = {
  durable: 'permissions',
  stream: 'DECISIONS',
  filterSubjects: [decisionSubject(REF)],
  maxAckPending: 1,
  ackWaitMs: 5_000,
  maxDeliver: 20,
};
const event = (subject: string) => encodeCloudEvent(subject, { id: '', source: '/test', type: 'test', data: {} });
const MAY_PULL = '"$JS.API.CONSUMER.MSG.NEXT.>", "$JS.ACK.>", "$JS.API.CONSUMER.INFO.>"';

/** One administrator, and one user who may publish some subjects and hear answers below its own prefix. */
const configuration = (password: string, mayPublish: string, mayHear = '"_INBOX_limited.>"') => `
jetstream: enabled
ping_interval: "2s"
ping_max: 2
authorization { users: [
  { user: admin, password: admin }
  { user: limited, password: ${password}, permissions: { publish: [${mayPublish}], subscribe: [${mayHear}] } }
] }
`;

await describeReal('NATS permissions', ['nats-server'], () => {
  describe('a bus user', { timeout: 30_000 }, () => {
    let folder: string;
    let configFile: string;
    let passwordFile: string;
    let server: NatsServer;
    let clients: NatsBus[];
    const open = (user: string, file: string, inboxPrefix?: string) => {
      const options = { servers: [server.url], name: 'test', user, passwordFile: file };
      const client = NatsBus.open({ ...options, ...(inboxPrefix && { inboxPrefix }) }, systemClock, silentLogger);
      clients.push(client);
      return client;
    };
    const openLimited = () => open('limited', passwordFile, '_INBOX_limited');
    const openAdmin = async () => {
      const file = join(folder, 'admin');
      await writeFile(file, 'admin\n');
      const admin = open('admin', file);
      await admin.link.whenUp();
      return admin;
    };
    const start = async (mayPublish: string, mayHear?: string) => {
      await writeFile(configFile, configuration('old', mayPublish, mayHear));
      server = await launchNats({ configFile });
      const admin = await openAdmin();
      await setupBus(admin.link.connection, SETUP_FOR_TESTS([SPEC]));
      return admin;
    };

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-permissions-'));
      configFile = join(folder, 'server.conf');
      passwordFile = join(folder, 'password');
      await writeFile(passwordFile, 'old\n');
      clients = [];
    });
    afterEach(async () => {
      await Promise.all(clients.map((client) => client.close()));
      await server[Symbol.asyncDispose]();
      await rm(folder, { recursive: true });
    });

    test('publishes what it may, with answers below its own prefix, and is denied the rest at once', async () => {
      await start('"decisions.>"');
      const bus = openLimited();
      await bus.link.whenUp();
      expect(await bus.publish(event(decisionSubject(REF)))).toMatchObject({ stream: 'DECISIONS' });
      const denied = bus.publish(event('gateways.ns.gw'), { timeoutMs: 20_000 });
      await expect(denied).rejects.toMatchObject({
        code: 'denied',
        message: expect.stringContaining('gateways.ns.gw'),
      });
      expect(bus.health()).toEqual({ connected: true });
    });

    test('that may not hear answers is denied, and says so', async () => {
      await start('"decisions.>"', '"elsewhere.>"');
      const bus = openLimited();
      await bus.link.whenUp();
      const denied = bus.publish(event(decisionSubject(REF)), { timeoutMs: 20_000 });
      await expect(denied).rejects.toMatchObject({ code: 'denied', message: expect.stringContaining('Subscription') });
    });

    test('that may not pull is not ready and names the subject, until it may', async () => {
      const admin = await start('"$JS.API.CONSUMER.INFO.>"');
      await admin.publish(event(decisionSubject(REF)));
      const bus = openLimited();
      const stop = new AbortController();
      let handled = 0;
      const ended = bus.consume(
        SPEC,
        async () => {
          handled++;
          return { kind: 'ack' };
        },
        stop.signal,
      );
      await eventually(() => /MSG\.NEXT/.test(reasonOf(bus)), 'the refusal to show');
      await writeFile(configFile, configuration('old', MAY_PULL));
      await server.restart();
      await eventually(() => handled === 1, 'the event');
      await eventually(() => bus.health().connected, 'the health to recover');
      stop.abort();
      await ended;
    });

    test('that may not listen to the live feed is told so', async () => {
      await start('"decisions.>"');
      const bus = openLimited();
      const stop = new AbortController();
      bus.subscribe('live.>', () => {}, stop.signal);
      await eventually(() => /live\.>/.test(reasonOf(bus)), 'the refusal to show');
      stop.abort();
      expect(bus.health()).toEqual({ connected: true });
    });

    test('with a rotated password comes back with the new one, in the same process', async () => {
      await start('"decisions.>"');
      const bus = openLimited();
      await bus.link.whenUp();
      await writeFile(configFile, configuration('new', '"decisions.>"'));
      await server.restart();
      await eventually(() => /Authorization/i.test(reasonOf(bus)), 'the old password to be refused');
      await expect(bus.publish(event(decisionSubject(REF)))).rejects.toMatchObject({ code: 'unavailable' });
      await writeFile(passwordFile, 'new\n');
      await eventually(() => bus.health().connected, 'the connection');
      await bus.publish(event(decisionSubject(REF)));
    });

    test('waits for a password file that is not there yet', async () => {
      await start('"decisions.>"');
      await rm(passwordFile);
      const bus = openLimited();
      await eventually(() => /ENOENT/.test(reasonOf(bus)), 'the missing file to show');
      await writeFile(passwordFile, 'old\n');
      await eventually(() => bus.health().connected, 'the connection');
    });
  });
});

function reasonOf(bus: NatsBus): string {
  const health = bus.health();
  return health.connected ? '' : health.reason;
}
