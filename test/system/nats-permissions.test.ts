import { copyFile, readFile, rm, stat } from 'node:fs/promises';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, deadline, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { makeUsers, seedFileOf, usersOf } from '../../infra/nats/make-users.ts';
import { permissionsOf } from '../../infra/nats/permissions.ts';
import { launchNats } from '../../infra/servers/launch-nats.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { NatsBusStatistics } from '../../shared/adapters/nats-bus-statistics.ts';
import { NatsHistory } from '../../shared/adapters/nats-history.ts';
import { toHeaders } from '../../shared/adapters/nats-message.ts';
import { NatsNotices } from '../../shared/adapters/nats-notices.ts';
import { connectionOptions, type NatsOptions } from '../../shared/adapters/nats-options.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type PastFilm, pagePast } from '../../shared/cli/page-past.ts';
import { type BusUser, busUserName, functionUser, inboxPrefixOf } from '../../shared/domain/bus-user.ts';
import { type CloudEvent, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { eventually } from '../support/eventually.ts';
import { describeReal } from '../support/real-parts.ts';
import { SecuredNats } from '../support/secured-nats.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { syntheticObservations } from '../support/synthetic-observations.ts';

/** The last one is that of synthetic observations. */
const TENANTS = ['liqo-tenant-rome', 'liqo-tenant-milan', 'liqo-tenant-0'];
const GATEWAY: BusUser = { role: 'gateway', namespace: 'liqo-tenant-rome' };
const SETUP: BusUser = { role: 'setup' };
const REPLAY: BusUser = { role: 'replay' };
const DEADLETTERS: BusUser = { role: 'deadletters' };
const VIEWER: BusUser = { role: 'viewer' };
const PAGE: BusUser = { role: 'page' };
const functionNamed = (name: string): BusUser => ({ role: 'function', name });

type Operation = 'publish' | 'subscription';

/** A bound, not an expectation. */
const REFUSED_WITHIN_MS = 10_000;

/** What each user must not do: publish there, or listen there. */
const FORBIDDEN: readonly (readonly [BusUser, Operation, string])[] = [
  [GATEWAY, 'publish', 'keepalive.liqo-tenant-milan.gw-milan.liqo-tunnel'],
  [GATEWAY, 'publish', 'gateways.liqo-tenant-milan.gw-milan'],
  [GATEWAY, 'publish', 'observations.0.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [GATEWAY, 'publish', 'live.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [GATEWAY, 'publish', 'replicas.tunnel-status'],
  [GATEWAY, 'publish', 'timers.silent.liqo-tenant-rome.gw-rome'],
  [GATEWAY, 'publish', 'changes.connections.liqo-tenant-rome.gw-rome'],
  [GATEWAY, 'publish', '$JS.API.STREAM.INFO.OBSERVATIONS'],
  [GATEWAY, 'publish', '$JS.API.DIRECT.GET.OBSERVATIONS'],
  [GATEWAY, 'subscription', 'keepalive.>'],
  [GATEWAY, 'subscription', 'live.>'],
  [GATEWAY, 'subscription', '_INBOX.>'],
  [GATEWAY, 'subscription', '_INBOX.function.tunnel-status.>'],
  ...CATALOG.flatMap(({ manifest }) => {
    const user = functionNamed(manifest.name);
    return [
      [user, 'publish', '$JS.API.STREAM.CREATE.OTHER'],
      [user, 'publish', '$JS.API.STREAM.UPDATE.OBSERVATIONS'],
      [user, 'publish', '$JS.API.STREAM.DELETE.OBSERVATIONS'],
      [user, 'publish', '$JS.API.STREAM.PURGE.OBSERVATIONS'],
      [user, 'publish', '$JS.API.STREAM.MSG.DELETE.OBSERVATIONS'],
      [user, 'publish', '$JS.API.CONSUMER.CREATE.OBSERVATIONS.another.observations.0.>'],
      [user, 'publish', '$JS.API.CONSUMER.DELETE.OBSERVATIONS.tunnel-status-0'],
      [user, 'publish', 'gateways.liqo-tenant-rome.gw-rome'],
      [user, 'publish', 'dead.another'],
      [user, 'publish', 'replicas.another'],
      [user, 'subscription', 'keepalive.>'],
      [user, 'subscription', '_INBOX.gateway.liqo-tenant-rome.>'],
    ] as const;
  }),
  [functionNamed('tunnel-status'), 'publish', 'keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [functionNamed('tunnel-status'), 'publish', 'changes.connections.liqo-tenant-rome.gw-rome'],
  [functionNamed('connection-watch'), 'publish', 'decisions.liqo-tenant-rome.gw-rome'],
  [functionNamed('connection-aggregate'), 'publish', '$KV.tunnel-state.a.b.c'],
  [functionNamed('connection-aggregate'), 'publish', '$JS.ACK.OBSERVATIONS.tunnel-status-0.1.1.1.1.0'],
  [functionNamed('gateway-silence'), 'publish', '$KV.tunnel-state.a.b.c'],
  [functionNamed('gateway-silence'), 'publish', 'timers.another.liqo-tenant-rome.gw-rome'],
  [SETUP, 'publish', 'keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [SETUP, 'publish', '$JS.API.STREAM.DELETE.OBSERVATIONS'],
  [SETUP, 'publish', '$JS.API.STREAM.PURGE.OBSERVATIONS'],
  [SETUP, 'publish', '$JS.API.CONSUMER.MSG.NEXT.OBSERVATIONS.tunnel-status-0'],
  [SETUP, 'subscription', 'live.>'],
  [REPLAY, 'publish', 'keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [REPLAY, 'publish', '$KV.tunnel-state.a.b.c'],
  [REPLAY, 'publish', '$JS.API.CONSUMER.CREATE.OBSERVATIONS.replay.observations.>'],
  [REPLAY, 'publish', '$JS.API.STREAM.MSG.DELETE.OBSERVATIONS'],
  [REPLAY, 'publish', '$JS.API.STREAM.CREATE.OTHER'],
  [REPLAY, 'subscription', 'live.>'],
  [DEADLETTERS, 'publish', 'decisions.liqo-tenant-rome.gw-rome'],
  [DEADLETTERS, 'publish', 'dead.tunnel-status'],
  [DEADLETTERS, 'publish', '$KV.tunnel-state.a.b.c'],
  [DEADLETTERS, 'publish', '$JS.API.STREAM.MSG.DELETE.DEAD_LETTERS'],
  [DEADLETTERS, 'publish', '$JS.API.CONSUMER.CREATE.DEAD_LETTERS.another.dead.>'],
  [DEADLETTERS, 'subscription', 'live.>'],
  [VIEWER, 'publish', 'keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [VIEWER, 'publish', 'live.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [VIEWER, 'publish', '$JS.API.DIRECT.GET.OBSERVATIONS'],
  [VIEWER, 'publish', '$JS.API.CONSUMER.CREATE.OBSERVATIONS.viewer.observations.>'],
  [VIEWER, 'subscription', 'keepalive.>'],
  [VIEWER, 'subscription', '>'],
  [PAGE, 'publish', 'keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [PAGE, 'publish', 'live.liqo-tenant-rome.gw-rome.liqo-tunnel'],
  [PAGE, 'publish', 'decisions.liqo-tenant-rome.gw-rome'],
  [PAGE, 'publish', '$KV.tunnel-state.a.b.c'],
  [PAGE, 'publish', '$JS.API.DIRECT.GET.DEAD_LETTERS'],
  [PAGE, 'publish', '$JS.API.DIRECT.GET.KV_tunnel-state.$KV.tunnel-state.a.b.c'],
  [PAGE, 'publish', '$JS.API.CONSUMER.CREATE.OBSERVATIONS.page.observations.>'],
  [PAGE, 'publish', '$JS.API.CONSUMER.MSG.NEXT.OBSERVATIONS.tunnel-status-0'],
  [PAGE, 'publish', '$JS.API.STREAM.MSG.DELETE.OBSERVATIONS'],
  [PAGE, 'publish', '$JS.API.STREAM.PURGE.OBSERVATIONS'],
  [PAGE, 'subscription', 'keepalive.>'],
  [PAGE, 'subscription', '_INBOX.viewer.>'],
  [PAGE, 'subscription', '>'],
];

describe('the table of permissions', () => {
  it('knows every function of the catalog, and no other', () => {
    for (const { manifest } of CATALOG) expect(permissionsOf(functionNamed(manifest.name)).publish).not.toEqual([]);
    expect(() => permissionsOf(functionNamed('tunel-status'))).toThrow('there is no function "tunel-status"');
  });

  it('gives a process of several functions what each of them may do', () => {
    const all = new Set(permissionsOf(functionUser(['tunnel-status', 'gateway-silence'])).publish);
    for (const { manifest } of CATALOG) {
      expect([...all]).toEqual(expect.arrayContaining([...permissionsOf(functionNamed(manifest.name)).publish]));
    }
  });

  it('keeps a namespace with dots within its own subjects', () => {
    const user: BusUser = { role: 'gateway', namespace: 'a.>' };
    expect(permissionsOf(user).publish).toEqual(['keepalive.a=2E=3E.*.*', 'gateways.a=2E=3E.*']);
    expect(inboxPrefixOf(user)).toBe('_INBOX.gateway.a=2E=3E');
  });
});

await describeReal('NATS permissions', ['nats-server', 'openssl'], () => {
  let nats: SecuredNats;
  beforeAll(async () => {
    nats = await SecuredNats.start(usersOf(TENANTS));
  });
  afterAll(() => nats[Symbol.asyncDispose]());

  it.each(FORBIDDEN.map(([user, operation, subject]) => [busUserName(user), operation, subject, user] as const))(
    'refuses %s a %s of %s',
    async (_name, operation, subject, user) => {
      const connection = await nats.connect(user);
      expect(await refusalOf(connection, operation, subject)).toMatchObject({ operation, subject });
      await connection.close();
    },
  );

  it('stores what a gateway says of its own namespace, shows it to viewers and gives it to replay', async () => {
    const viewer = await nats.connect(VIEWER);
    const live = viewer.subscribe('live.>', { max: 1 });
    await viewer.flush();
    const gateway = await nats.connect(GATEWAY);
    const subject = 'keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel';
    const ack = await jetstream(gateway).publish(subject, 'said');
    expect(ack.stream).toBe('OBSERVATIONS');
    for await (const message of live) expect(message.subject).toBe('live.liqo-tenant-rome.gw-rome.liqo-tunnel');

    const { direct, streams } = await jetstreamManager(await nats.connect(REPLAY));
    expect((await direct.getMessage('OBSERVATIONS', { seq: ack.seq }))?.string()).toBe('said');
    expect((await streams.info('OBSERVATIONS')).state.last_seq).toBe(ack.seq);
    const viewed = await (await jetstreamManager(viewer)).consumers.info('OBSERVATIONS', 'tunnel-status-0');
    expect(viewed.config.max_ack_pending).toBe(1);
  });

  it('gives the page all it shows, its past included, by one user', async () => {
    const bus = NatsBus.open(nats.optionsOf(PAGE), systemClock, silentLogger);
    const { link } = bus;
    await link.whenUp();
    const stop = new AbortController();
    const heard: string[] = [];
    bus.subscribe('live.>', ({ subject }) => void heard.push(subject), stop.signal);
    new NatsNotices(link).hear('replicas.*', ({ subject }) => void heard.push(subject), stop.signal);
    await link.connection.flush();
    const ofFunction = await nats.connect(functionNamed('tunnel-status'));
    const observations = [...syntheticObservations({ connections: 1, tunnels: 1, intervalMs: 200, rounds: 30 })];
    const gateway = jetstream(await nats.connect({ role: 'gateway', namespace: 'liqo-tenant-0' }));
    for (const { event } of observations) {
      const { subject, headers, data } = encodeCloudEvent(
        'keepalive.liqo-tenant-0.gw-0.liqo-tunnel',
        event as CloudEvent,
      );
      await gateway.publish(subject, data, { headers: toHeaders(headers) });
    }
    const hasHeardBoth = () => {
      ofFunction.publish('replicas.tunnel-status', 'how it is'); // again and again, as a replica does
      return new Set(heard).size === 2;
    };
    await eventually(hasHeardBoth, 'a copy of an observation, and a notice of a replica');

    expect(await new NatsBusStatistics(link).read()).toMatchObject({ deadLetters: 0 });
    const past = pagePast(new NatsHistory(link, systemClock), systemClock);
    const film = (await past.read({ minutes: 5 }, stop.signal)) as PastFilm;
    expect(film.frames.at(-1)?.patch.connections?.[0]?.tunnels).toMatchObject([{ interfaceId: 'liqo-tunnel' }]);
    expect(bus.health()).toEqual({ connected: true });
    stop.abort();
    await bus.close();
  });

  it('lets nobody in without a key, with another key, or without TLS', async () => {
    const options = nats.optionsOf(VIEWER);
    const { credsFile: _, ...anonymous } = options;
    await makeUsers(`${nats.folder}/others`, [VIEWER]);
    const stranger = { ...options, credsFile: seedFileOf(`${nats.folder}/others`, VIEWER) };
    const { tls: _tls, ...unaware } = options;
    await expect(connectOnce(anonymous)).rejects.toThrow(/authorization violation/i);
    await expect(connectOnce(stranger)).rejects.toThrow(/authorization violation/i);
    await expect(connectOnce(unaware)).rejects.toThrow(/certificate/i);
    await expect(connect({ ...connectionOptions(options), tls: null, maxReconnectAttempts: 0 })).rejects.toThrow(
      /tls/i,
    );
  });

  it('takes tls:// for a demand', async () => {
    await using plain = await launchNats();
    const server = plain.url.replace('nats:', 'tls:');
    await expect(connectOnce({ servers: [server], name: 'test' })).rejects.toThrow(/does not support 'tls'/);
  });

  it('lets a rotated key take over without a restart of either side, and nobody in with the old one', async () => {
    const leaked = { ...nats.optionsOf(VIEWER), credsFile: `${nats.folder}/leaked` };
    await copyFile(seedFileOf(nats.folder, VIEWER), leaked.credsFile);
    const bus = NatsBus.open(nats.optionsOf(VIEWER), systemClock, silentLogger);
    await bus.link.whenUp();
    const before = await keyInUse(nats, VIEWER);
    await rm(seedFileOf(nats.folder, VIEWER));
    await makeUsers(nats.folder, usersOf(TENANTS));
    await nats.reload();
    await eventually(async () => bus.link.isUp && (await keyInUse(nats, VIEWER)) !== before, 'the new key in use');
    await expect(connectOnce(leaked)).rejects.toThrow(/authorization violation/i);
    await bus.close();
  });

  it('keeps seeds to their owner', async () => {
    const { mode } = await stat(seedFileOf(nats.folder, SETUP));
    expect(mode & 0o077).toBe(0);
    const accounts = await readFile(`${nats.folder}/accounts.conf`, 'utf8');
    expect(accounts).not.toMatch(/SU[A-Z2-7]{56}/);
  });
});

async function connectOnce(options: NatsOptions): Promise<void> {
  const connection = await connect({ ...connectionOptions(options), maxReconnectAttempts: 0 });
  await connection.close();
}

/** What the server says to it; anything that it does not refuse ends in a time-out. */
async function refusalOf(connection: NatsConnection, operation: Operation, subject: string): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const statuses = connection.status();
  void (async () => {
    for await (const status of statuses) if (status.type === 'error') resolve(status.error);
  })();
  if (operation === 'publish') connection.publish(subject, 'forbidden', { reply: 'ignored' });
  else connection.subscribe(subject, { callback: (error) => void (error && resolve(error)) });
  return deadline(promise, REFUSED_WITHIN_MS);
}

/** Public key of the connection that the user has now. */
async function keyInUse(nats: SecuredNats, user: BusUser): Promise<string | undefined> {
  const response = await fetch(`${nats.server.monitorUrl}/connz?auth=true`);
  const { connections } = (await response.json()) as {
    connections: readonly { readonly name?: string; readonly nkey?: string; readonly authorized_user?: string }[];
  };
  const own = connections.find(({ name }) => name === busUserName(user));
  return own?.nkey ?? own?.authorized_user;
}
