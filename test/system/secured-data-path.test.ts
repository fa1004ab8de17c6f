import { inspect } from 'node:util';
import { jetstreamManager } from '@nats-io/jetstream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { usersOf } from '../../infra/nats/make-users.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { NatsStateStore } from '../../shared/adapters/nats-state-store.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type BusUser, busUserName } from '../../shared/domain/bus-user.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import { gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import { eventually } from '../support/eventually.ts';
import { describeReal } from '../support/real-parts.ts';
import { SecuredNats } from '../support/secured-nats.ts';

const ROME: ConnectionRef = { namespace: 'liqo-tenant-rome', name: 'gw-rome' };
const SILENT_AFTER_MS = 1_500;

await describeReal('the data path with a NATS user of its own for each part', ['nats-server', 'openssl'], () => {
  const kubernetes = new EmbeddedKubernetes({ clock: systemClock, newUid: () => `uid-${crypto.randomUUID()}` });
  const buses: NatsBus[] = [];
  const stop = new AbortController();
  const refused: unknown[] = [];
  let nats: SecuredNats;
  let running: Promise<unknown>;
  let gateway: NatsBus;

  const open = (user: BusUser): NatsBus => {
    const bus = NatsBus.open(nats.optionsOf(user), systemClock, loggerThatNotesRefusals(busUserName(user), refused));
    buses.push(bus);
    return bus;
  };
  const status = () => kubernetes.get(ROME)?.status;
  /** Like a gateway, again and again: an observation that came before the listing does not count. */
  const observeUntilConnected = async (gatewayEpoch: number) => {
    let sequence = 0;
    await eventually(async () => {
      await observe(gateway, gatewayEpoch, ++sequence);
      return status()?.value === 'Connected';
    }, 'the tunnel connected');
  };

  beforeAll(async () => {
    nats = await SecuredNats.start(usersOf([ROME.namespace]));
    const replicas = CATALOG.map((definition) => {
      const bus = open({ role: 'function', name: definition.manifest.name });
      const ports: FunctionPorts = {
        bus,
        state: new NatsStateStore(bus.link),
        connections: new EmbeddedConnectionStore(kubernetes),
        feed: new EmbeddedChangeFeed(kubernetes),
        clock: systemClock,
        meter: { count() {}, gauge() {}, observe() {}, remove() {} },
        log: loggerThatNotesRefusals(definition.manifest.name, refused),
      };
      const settings = { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: SILENT_AFTER_MS };
      return bus.link.whenUp().then(() => runReplica(definition, ports, settings, stop.signal));
    });
    running = Promise.all(replicas);
    gateway = open({ role: 'gateway', namespace: ROME.namespace });
    await gateway.link.whenUp();
  });
  afterAll(async () => {
    stop.abort();
    await running;
    await Promise.all(buses.map((bus) => bus.close()));
    await nats[Symbol.asyncDispose]();
  });

  it('lists the tunnel, shows what the gateway sees, notices its silence', async () => {
    const { sequence: gatewayEpoch } = await announce(gateway);
    await observeUntilConnected(gatewayEpoch);
    await eventually(() => status()?.tunnels?.[0]?.reason === 'GatewaySilent', 'the silence');
    await eventually(() => status()?.value === 'Error', 'the Connection in Error');
    expect(refused).toEqual([]);
  });

  it('goes on where a consumer was deleted: its function may make it again, and only that one', async () => {
    const manager = await jetstreamManager(await nats.connect({ role: 'setup' }));
    const deleted = CATALOG.flatMap(({ manifest }) => ('consumers' in manifest ? manifest.consumers : []));
    for (const { stream, durable } of deleted) await manager.consumers.delete(stream, durable);
    const { sequence: gatewayEpoch } = await announce(gateway);
    await observeUntilConnected(gatewayEpoch);
    for (const { stream, durable } of deleted) {
      await eventually(async () => (await namesOf(manager, stream)).includes(durable), `${durable} made again`);
    }
    expect(refused).toEqual([]);
  });

  it('refuses what a gateway says of another namespace', async () => {
    const other = { namespace: 'liqo-tenant-milan', name: 'gw-milan' };
    await expect(announce(gateway, other)).rejects.toMatchObject({ code: 'denied' });
    await eventually(() => refused.length === 1, 'the refusal in the log');
    expect(refused).toMatchObject([{ user: 'gateway.liqo-tenant-rome' }]);
    expect(kubernetes.get(other)).toBeUndefined();
  });

  it('makes a dead letter of what a gateway says of another namespace on a subject of its own', async () => {
    const viewer = await nats.connect({ role: 'replay' });
    const { direct } = await jetstreamManager(viewer);
    const letters = async () => {
      const last = await direct
        .getMessage('DEAD_LETTERS', { last_by_subj: 'dead.connection-ensure' })
        .catch(() => null);
      return last?.json<{ reason: string; message: string }>();
    };
    const data = { ...announcementOf(ROME), namespace: 'liqo-tenant-milan' };
    const event = { id: crypto.randomUUID(), source: '/test', type: GATEWAY_TYPE, data };
    await gateway.publish(encodeCloudEvent(gatewaySubject(ROME), event));
    await eventually(async () => (await letters()) !== undefined, 'the dead letter');
    expect(await letters()).toMatchObject({
      reason: 'ForeignSubject',
      message: expect.stringContaining('about liqo-tenant-milan.gw-rome'),
    });
    expect(kubernetes.get({ ...ROME, namespace: 'liqo-tenant-milan' })).toBeUndefined();
  });
});

function announce(bus: NatsBus, ref = ROME) {
  const event = { id: crypto.randomUUID(), source: '/test', type: GATEWAY_TYPE, data: announcementOf(ref) };
  return bus.publish(encodeCloudEvent(gatewaySubject(ref), event));
}

function announcementOf({ namespace, name }: ConnectionRef): GatewayAnnouncement {
  return {
    ...{ namespace, connection: name, gatewayName: 'rome', gatewayUid: 'gateway-uid', mode: 'server' },
    ...{ remoteClusterId: 'milan', interfaces: ['liqo-tunnel'], announcedAt: new Date().toISOString() },
  };
}

function observe(bus: NatsBus, gatewayEpoch: number, sequence: number) {
  const data: Observation = {
    ...{ namespace: ROME.namespace, connection: ROME.name, interfaceId: 'liqo-tunnel', gatewayEpoch, sequence },
    ...{ monotonicMs: sequence, kind: 'pong', value: 'Connected', rttNs: 1_000_000 },
    observedAt: new Date().toISOString(),
  };
  const event = { id: crypto.randomUUID(), source: '/test', type: OBSERVATION_TYPE, data };
  return bus.publish(encodeCloudEvent(observationSubject(ROME, 'liqo-tunnel'), event));
}

async function namesOf(manager: Awaited<ReturnType<typeof jetstreamManager>>, stream: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of manager.consumers.list(stream)) names.push(name);
  return names;
}

/** The bus warns of every refusal by the server, whether or not somebody waits for the answer. */
function loggerThatNotesRefusals(user: string, refused: unknown[]): Logger {
  const logger: Logger = {
    debug() {},
    info() {},
    warn: (fields) => {
      if (/permissions violation/i.test(inspect(fields))) refused.push({ user, ...fields });
    },
    error() {},
    child: () => logger,
  };
  return logger;
}
