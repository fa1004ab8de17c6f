import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { encodeCloudEvent, MESSAGE_ID_HEADER } from '../../shared/domain/cloud-event.ts';
import type { Connection, ConnectionRef, PublicKey, TunnelEntry } from '../../shared/domain/connection.ts';
import {
  CONNECTION_API_VERSION,
  isNewerResourceVersion,
  REMOTE_CLUSTER_ID_LABEL,
} from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { changeSubject, gatewaySubject } from '../../shared/domain/subjects.ts';
import { STATE_BUCKET } from '../../shared/domain/topology.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { eventually } from '../support/eventually.ts';
import { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { SETUP_FOR_TESTS } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { TestGateway } from '../support/test-gateway.ts';
import type { WgKeepalive } from '../support/wg-keepalive.ts';

const OTHERS = ['connection-watch', 'tunnel-status', 'connection-aggregate'];
/** Gateways of these tests say little: none of them shall count as gone meanwhile. */
const PATIENT = ['--gateway-silent-after=10m'];
const TEN_SECONDS_MS = 10_000;
const LIMIT_MS = 60_000;

await describeReal('connection-ensure on real parts', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  let parts: FunctionsOnRealParts;
  let others: WgKeepalive;
  let ensure: WgKeepalive;
  /** A namespace with a key and no gateway. */
  let fence: string;

  beforeAll(async () => {
    parts = await FunctionsOnRealParts.start();
    others = await parts.startFunctions(PATIENT, OTHERS);
    fence = await parts.kubernetes.namespace();
    await addPublicKey(fence);
    ensure = await startEnsure();
    await others.untilReady();
  });
  afterAll(() => parts[Symbol.asyncDispose]());

  /** Until it takes events, so that what it does at its start is done. */
  async function startEnsure(flags = PATIENT): Promise<WgKeepalive> {
    const started = await (await parts.startFunctions(flags, ['connection-ensure'])).untilReady();
    await untilTold('publickeies', await touchPublicKey(fence, `${started.pid}`));
    await parts.untilIdle();
    return started;
  }

  const pathOf = ({ namespace, name }: ConnectionRef) =>
    `/apis/${CONNECTION_API_VERSION}/namespaces/${namespace}/connections/${name}`;
  const keysOf = (namespace: string) => `/apis/${CONNECTION_API_VERSION}/namespaces/${namespace}/publickeies`;

  /** As the API server has it. */
  async function raw(ref: ConnectionRef): Promise<Connection> {
    return (await parts.kubernetes.admin.call<Connection>({ method: 'GET', path: pathOf(ref) })).body;
  }

  async function write<T = Connection>(
    method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
    { contentType = 'application/json', ...query }: Record<string, string | boolean> = {},
  ): Promise<T> {
    const request = { method, path, query, body, contentType: `${contentType}` };
    return (await parts.kubernetes.admin.call<T>(request)).body;
  }

  const merge = (path: string, patch: object, fieldManager = 'somebody') =>
    write('PATCH', path, patch, { contentType: 'application/merge-patch+json', fieldManager });

  /** A key of the remote cluster, as the controller of Liqo makes it. */
  function addPublicKey(namespace: string, name = 'milan'): Promise<PublicKey> {
    const metadata = { name, labels: { [REMOTE_CLUSTER_ID_LABEL]: 'milan' } };
    const spec = { publicKey: Buffer.alloc(32, 7).toString('base64') };
    return write('POST', keysOf(namespace), { apiVersion: CONNECTION_API_VERSION, kind: 'PublicKey', metadata, spec });
  }

  /** A write that changes nothing about the key, as a periodic re-sync does. */
  const touchPublicKey = (namespace: string, at: string, name = 'milan') =>
    merge(`${keysOf(namespace)}/${name}`, { metadata: { annotations: { 'test/touched-at': at } } });

  /** Until this state of the object, or a newer one, is in CHANGES. */
  async function untilTold(kind: 'connections' | 'publickeies', { metadata }: Pick<Connection, 'metadata'>) {
    const { resourceVersion } = metadata;
    const isTold = async () => {
      const [last] = await parts.bus.lastMessages('CHANGES', changeSubject(kind, metadata));
      const told = last?.headers[MESSAGE_ID_HEADER]?.split('.')[1];
      return told === resourceVersion || (told !== undefined && isNewerResourceVersion(told, resourceVersion));
    };
    await eventually(isTold, `${kind} ${metadata.name} at ${resourceVersion} to be told`, LIMIT_MS);
  }

  /** The Connection once nothing can move it any more: its last state was told, every queue is empty, it is the same. */
  async function atRest(ref: ConnectionRef): Promise<Connection> {
    const endMs = performance.now() + LIMIT_MS;
    for (;;) {
      const before = await raw(ref);
      await untilTold('connections', before);
      await parts.untilIdle();
      const after = await raw(ref);
      if (after.metadata.resourceVersion === before.metadata.resourceVersion) return after;
      if (performance.now() > endMs) throw new Error(`${ref.namespace}/${ref.name} does not come to rest`);
    }
  }

  /** A gateway whose tunnels are all Connected, at rest. */
  async function connectedGateway(tunnels: number): Promise<TestGateway> {
    const gateway = await parts.gateway(tunnels);
    for (const id of gateway.interfaces) await gateway.pong(1, id);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Connected', 'Connected');
    await atRest(gateway.ref);
    return gateway;
  }

  const listed = async (ref: ConnectionRef) =>
    (await parts.connection(ref))?.status?.tunnels?.map(({ interfaceID, value }) => `${interfaceID} ${value}`) ?? [];

  describe('a gateway announces itself', () => {
    const announced = (namespace: string, mode: GatewayMode): GatewayAnnouncement => ({
      ...{ namespace, connection: 'gw-rome', gatewayName: 'rome', gatewayUid: 'uid-of-the-gateway', mode },
      ...{ remoteClusterId: 'milan', interfaces: ['liqo-tunnel', 'liqo-tunnel1'] },
      announcedAt: new Date().toISOString(),
    });

    it.each([
      { mode: 'server', type: 'Server', kind: 'WgGatewayServer', owner: 'GatewayServer' },
      { mode: 'client', type: 'Client', kind: 'WgGatewayClient', owner: 'GatewayClient' },
    ] as const)(
      '$mode: the Connection exists, owned but not controlled by it, its tunnels Connecting',
      async (want) => {
        const namespace = await parts.kubernetes.namespace();
        const data = announced(namespace, want.mode);
        const ref = { namespace, name: data.connection };
        const id = `${namespace}.announcement`;
        await parts.bus.publish(
          encodeCloudEvent(gatewaySubject(ref), { id, source: '/test', type: GATEWAY_TYPE, data }),
        );
        await eventually(async () => (await listed(ref)).length === 2, 'two entries');

        const { metadata, spec, status } = await atRest(ref);
        expect(metadata.labels).toEqual({ [REMOTE_CLUSTER_ID_LABEL]: 'milan' });
        const apiVersion = CONNECTION_API_VERSION;
        const { name, uid } = { name: 'rome', uid: 'uid-of-the-gateway' };
        expect(metadata.ownerReferences).toEqual([{ apiVersion, kind: want.owner, name, uid }]); // nothing of a controller
        expect(spec).toEqual({ type: want.type, gatewayRef: { apiVersion, kind: want.kind, name, namespace, uid } });
        expect(status?.value).toBe('Connecting');
        const lastTransitionTime = expect.any(String);
        expect(status?.tunnels).toEqual(
          data.interfaces.map((interfaceID) => ({ interfaceID, value: 'Connecting', lastTransitionTime })),
        );
        expect(entriesByManager(await raw(ref))).toEqual({
          'liqo-tunnel Apply': ['liqo-tunnel'],
          'liqo-tunnel1 Apply': ['liqo-tunnel1'],
        });
      },
    );
  });

  describe('makes the tunnels listed the tunnels configured', () => {
    it('adds what is missing under its own manager and touches no other', async () => {
      const gateway = await connectedGateway(2);
      const before = await raw(gateway.ref);
      await gateway.announce([...gateway.interfaces, 'liqo-tunnel2', 'liqo-tunnel3']);
      await eventually(async () => (await listed(gateway.ref)).length === 4, 'four entries');

      const after = await atRest(gateway.ref);
      expect(after.status?.tunnels?.slice(0, 2)).toEqual(before.status?.tunnels);
      expect((await listed(gateway.ref)).slice(2)).toEqual(['liqo-tunnel2 Connecting', 'liqo-tunnel3 Connecting']);
      const fields = (connection: Connection) =>
        connection.metadata.managedFields?.filter(({ manager }) => gateway.interfaces.includes(manager ?? ''));
      expect(fields(after)).toEqual(fields(before));
      expect(entriesByManager(after)).toEqual(
        Object.fromEntries(after.status?.tunnels?.map(({ interfaceID: id }) => [`${id} Apply`, [id]]) ?? []),
      );
    });

    /** Each leaves somebody else as an owner, or as another owner, of the entry of liqo-tunnel2. */
    const coOwners = {
      'nobody else': async () => {},
      'an ordinary update (PUT)': async (ref) => {
        const live = await raw(ref);
        await write('PUT', `${pathOf(ref)}/status`, withLatency(live, 'liqo-tunnel2'), { fieldManager: 'controller' });
      },
      'kubectl edit': async (ref) => {
        const { status } = withLatency(await raw(ref), 'liqo-tunnel2');
        await merge(`${pathOf(ref)}/status`, { status: { tunnels: status?.tunnels } }, 'kubectl-edit');
      },
      'a second manager of Server-Side Apply': async (ref) => {
        const entry = withLatency(await raw(ref), 'liqo-tunnel2').status?.tunnels?.[2];
        const body = {
          apiVersion: CONNECTION_API_VERSION,
          kind: 'Connection',
          metadata: {},
          status: { tunnels: [entry] },
        };
        const contentType = 'application/apply-patch+yaml';
        await write('PATCH', `${pathOf(ref)}/status`, body, { contentType, fieldManager: 'second', force: true });
      },
    } as const satisfies Record<string, (ref: ConnectionRef) => Promise<void>>;

    it.each(Object.entries(coOwners))(
      'takes away what is stale, co-owned by %s, within 10 s (C13)',
      async (_, touch) => {
        const gateway = await connectedGateway(3);
        await touch(gateway.ref);
        await atRest(gateway.ref);
        const writesBefore = (await parts.writes(gateway.ref)).length;

        await gateway.announce(gateway.interfaces.slice(0, 2));
        const left = ['liqo-tunnel Connected', 'liqo-tunnel1 Connected'];
        const isGone = async () => (await listed(gateway.ref)).join() === left.join();
        await eventually(isGone, 'two entries', TEN_SECONDS_MS);
        await gateway.pong(9, 'liqo-tunnel2'); // a late one brings nothing back

        const { status, metadata } = await atRest(gateway.ref);
        expect(await listed(gateway.ref)).toEqual(left);
        expect(JSON.stringify(metadata.managedFields)).not.toContain('liqo-tunnel2');
        expect(status?.value).toBe('Connected');
        const writes = (await parts.writes(gateway.ref)).slice(writesBefore);
        // Release, cut out, aggregate; each may meet the other once.
        expect(writes.length).toBeLessThanOrEqual(6);
        expect(writes.filter(({ code }) => ![200, 409, 422].includes(code))).toEqual([]);
      },
    );

    it('takes the only entry that is left of a foreign manager away, and then lists the new one', async () => {
      const gateway = await connectedGateway(1);
      const live = await raw(gateway.ref);
      await write('PUT', `${pathOf(gateway.ref)}/status`, withLatency(live, 'liqo-tunnel'), { fieldManager: 'other' });
      await gateway.announce(['liqo-tunnel1']);
      await eventually(async () => (await listed(gateway.ref)).join() === 'liqo-tunnel1 Connecting', 'the other entry');
      const { metadata } = await atRest(gateway.ref);
      expect(JSON.stringify(metadata.managedFields)).not.toContain('"liqo-tunnel"');
    });
  });

  describe('disturbs nothing that is as it should be', () => {
    it('over a re-sync of keys, a restart, a second replica, and the same announcement again', async () => {
      const gateway = await connectedGateway(3);
      const { namespace } = gateway.ref;
      await addPublicKey(namespace);
      const before = await atRest(gateway.ref);
      const unchanged = async (round: string) => {
        await untilTold('publickeies', await touchPublicKey(namespace, round));
        expect(await atRest(gateway.ref)).toEqual(before); // managedFields, their times and the resourceVersion included
      };

      await unchanged('touched');
      expect(await others.stop()).toEqual({ code: 0, signal: null });
      others = await (await parts.startFunctions(PATIENT, OTHERS)).untilReady(); // lists everything anew
      await unchanged('watched anew');
      expect(await ensure.stop()).toEqual({ code: 0, signal: null });
      ensure = await startEnsure();
      await unchanged('restarted');
      const second = await startEnsure();
      await unchanged('two replicas');
      await gateway.announce();
      await unchanged('announced again');
      await second.stop();
    });

    it('an old gateway that still speaks changes nothing', async () => {
      const gateway = await connectedGateway(2);
      const oldEpoch = gateway.epoch;
      gateway.epoch = 0; // a new run
      await gateway.announce();
      expect(gateway.epoch).toBeGreaterThan(oldEpoch);
      const before = await atRest(gateway.ref);

      gateway.epoch = oldEpoch;
      await gateway.announce(['liqo-tunnel', 'liqo-tunnel1', 'liqo-tunnel2', 'liqo-tunnel3']);
      await eventually(() => decided(gateway.ref, 'OlderEpoch'), 'the old announcement to be refused', LIMIT_MS);
      expect(await atRest(gateway.ref)).toEqual(before);
      // It is the last announcement now, and must not count at a start either.
      await ensure.stop();
      ensure = await startEnsure();
      expect(await atRest(gateway.ref)).toEqual(before);
    });
  });

  /** Gateways that were never to be served would come back for as long as the others speak. */
  async function forget(namespaces: readonly string[]): Promise<void> {
    const { streams } = await parts.manager();
    for (const namespace of namespaces) await streams.purge('GATEWAYS', { filter: `gateways.${namespace}.*` });
    await parts.untilIdle();
  }

  async function setUpAgain(): Promise<void> {
    const consumers = CATALOG.flatMap(({ manifest }) => ('consumers' in manifest ? manifest.consumers : []));
    await setupBus(parts.bus.link.connection, SETUP_FOR_TESTS(consumers));
  }

  const decided = ({ namespace }: ConnectionRef, reason: string, times = 1) =>
    parts.decisions.filter((decision) => decision.namespace === namespace && decision.reason === reason).length >=
    times;

  describe('is called', () => {
    it('when somebody edits the Connection: label, owner, spec, and an entry that they delete', async () => {
      const gateway = await connectedGateway(2);
      const before = await raw(gateway.ref);
      const path = pathOf(gateway.ref);
      const isMended = async () => {
        const { metadata, spec, status } = await raw(gateway.ref);
        return (
          metadata.labels?.[REMOTE_CLUSTER_ID_LABEL] === 'milan' &&
          JSON.stringify(spec) === JSON.stringify(before.spec) &&
          status?.tunnels?.length === 2
        );
      };
      const edits = [
        () => merge(path, { metadata: { labels: { [REMOTE_CLUSTER_ID_LABEL]: 'turin', other: 'stays' } } }),
        () => merge(path, { metadata: { labels: { [REMOTE_CLUSTER_ID_LABEL]: null } } }),
        () => merge(path, { spec: { type: 'Client' } }),
        () => merge(path, { spec: { gatewayRef: { name: 'florence' } } }),
        () => merge(`${path}/status`, { status: { tunnels: before.status?.tunnels?.slice(0, 1) } }),
        () => merge(`${path}/status`, { status: { tunnels: null } }),
      ];
      for (const edit of edits) {
        await edit();
        await eventually(isMended, `${edit} to be mended`, LIMIT_MS);
        await atRest(gateway.ref);
      }
      expect((await raw(gateway.ref)).metadata.labels?.other).toBe('stays');
      for (const id of gateway.interfaces) await gateway.pong(2, id);
      await eventually(async () => (await raw(gateway.ref)).status?.value === 'Connected', 'Connected again');
    });

    it('when the Connection is deleted while its gateway speaks: another takes its place and goes on', async () => {
      const gateway = await connectedGateway(3);
      const { uid } = (await raw(gateway.ref)).metadata;
      gateway.startPinging(100);
      await write('DELETE', pathOf(gateway.ref));
      const isBack = async () => {
        const connection = await parts.connection(gateway.ref);
        return connection !== undefined && connection.metadata.uid !== uid && connection.status?.value === 'Connected';
      };
      await eventually(isBack, 'another Connection, Connected', LIMIT_MS);
      await gateway.stopPinging();
      const { metadata } = await atRest(gateway.ref);
      expect(metadata.labels).toEqual({ [REMOTE_CLUSTER_ID_LABEL]: 'milan' });
      expect((await listed(gateway.ref)).length).toBe(3);
    });

    it('at its start for every gateway, though the namespace of one is gone and another may not be entered', async () => {
      const gateway = await connectedGateway(1);
      await ensure.stop();
      const [gone, closed] = ['no-such-namespace', await parts.kubernetes.namespace()];
      await write('DELETE', `/api/v1/namespaces/${closed}`); // it stays: nobody here ends it
      for (const namespace of [gone, closed]) await new TestGateway(parts.bus, namespace, 1).announce();
      await gateway.announce(['liqo-tunnel', 'liqo-tunnel1']);

      ensure = await parts.startFunctions(PATIENT, ['connection-ensure']);
      await eventually(async () => (await listed(gateway.ref)).length === 2, 'what was announced meanwhile', LIMIT_MS);
      await forget([gone, closed]);
    });

    it('for every gateway, though more of them than it takes at once are in namespaces that do not exist yet', async () => {
      const later = Array.from({ length: 70 }, (_, index) => `later-${index}`);
      await Promise.all(later.map((namespace) => new TestGateway(parts.bus, namespace, 1).announce()));
      await eventually(
        () => later.every((namespace) => decided({ namespace, name: 'gw-rome' }, 'not-found')),
        'all of them to be refused',
        LIMIT_MS,
      );
      await parts.gateway(1);
      await parts.untilIdle(); // none of them is held back

      const [appears = '', ...others] = later;
      await write('POST', '/api/v1/namespaces', { metadata: { name: appears } });
      const isThere = async () => (await listed({ namespace: appears, name: 'gw-rome' })).length === 1;
      await eventually(isThere, 'the Connection in the namespace that has appeared', 2 * LIMIT_MS);
      await forget(others);
    });

    it('at its start for a Connection that is missing only where its gateway lives', async () => {
      const silentAfterMs = 3_000;
      const flags = [`--gateway-silent-after=${silentAfterMs}ms`];
      const gateway = await connectedGateway(1);
      const { ref } = gateway;
      await ensure.stop();
      await write('DELETE', pathOf(ref));
      const spokeAtMs = performance.now();
      await eventually(() => performance.now() - spokeAtMs > 2 * silentAfterMs, 'its silence', LIMIT_MS);

      // The first start is told of the deletion, too; one timer serves both.
      for (const start of ['one start', 'another']) {
        parts.decisions.length = 0;
        ensure = await startEnsure(flags);
        await eventually(() => decided(ref, 'GatewaySilent'), `to be left away at ${start}`, LIMIT_MS);
        await ensure.stop();
      }
      expect(await parts.connection(ref)).toBeUndefined();

      gateway.startPinging(100);
      ensure = await startEnsure(flags);
      await eventually(
        async () => (await listed(ref)).length === 1,
        'the Connection of a gateway that lives',
        LIMIT_MS,
      );
      await gateway.stopPinging();
      await ensure.stop();
      ensure = await startEnsure();
    });

    it('for watched namespaces only', async () => {
      const [ours, other] = await Promise.all([parts.kubernetes.namespace(), parts.kubernetes.namespace()]);
      await ensure.stop();
      ensure = await startEnsure([...PATIENT, `--watch-namespace=${ours}`, `--watch-namespace=${fence}`]);
      const [known, unknown] = [ours, other].map((namespace) => new TestGateway(parts.bus, namespace, 1));
      await unknown?.announce();
      await known?.announce();
      await eventually(async () => (await listed({ namespace: ours, name: 'gw-rome' })).length === 1, 'ours', LIMIT_MS);
      await eventually(
        () => decided({ namespace: other, name: 'gw-rome' }, 'NotWatched'),
        'the other to be left alone',
      );
      expect(await parts.connection({ namespace: other, name: 'gw-rome' })).toBeUndefined();
      await ensure.stop();
      ensure = await startEnsure();
      await eventually(
        async () => (await listed({ namespace: other, name: 'gw-rome' })).length === 1,
        'both',
        LIMIT_MS,
      );
    });

    it('at its start after the bucket was lost: every tunnel is listed again, and its values flow', async () => {
      const gateway = await connectedGateway(2);
      const before = await raw(gateway.ref);
      await ensure.stop();
      await (await parts.manager()).streams.delete(`KV_${STATE_BUCKET}`);
      await setUpAgain();
      parts.decisions.length = 0;
      ensure = await startEnsure();
      await parts.untilListed(gateway);
      expect((await raw(gateway.ref)).status?.tunnels?.map(({ value }) => value)).toEqual(['Connected', 'Connected']);

      for (const id of gateway.interfaces) await gateway.pong(7, id);
      const latencies = async () =>
        (await raw(gateway.ref)).status?.tunnels?.map(({ latency }) => latency?.value).join();
      await eventually(async () => (await latencies()) === '7ms,7ms', 'new values', LIMIT_MS);
      const after = await atRest(gateway.ref);
      expect(entriesByManager(after)).toEqual(entriesByManager(before));
    });

    // Last: the timers that it arms fall due, and nobody here looks after them.
    it('when a key of the remote cluster is added, changed, or told again', async () => {
      const gateway = await connectedGateway(1);
      const { ref } = gateway;
      const { consumers } = await parts.manager();
      await ensure.stop();
      ensure = await startEnsure(['--gateway-silent-after=100ms']);
      const exists = async () => {
        const { num_pending, num_ack_pending } = await consumers.info('CHANGES', 'connection-ensure-changes');
        return num_pending + num_ack_pending === 0 && (await listed(ref)).length === 1;
      };
      let deletions = 0;
      /** A gateway that has not spoken for so long gets its Connection back by a key only. */
      const takeAway = async () => {
        await write('DELETE', pathOf(ref));
        const isRefused = () => decided(ref, 'GatewaySilent', deletions + 1);
        await eventually(isRefused, 'the Connection to be left deleted', LIMIT_MS);
        deletions += 1;
        expect(await parts.connection(ref)).toBeUndefined();
      };

      await takeAway();
      await addPublicKey(ref.namespace);
      await eventually(exists, 'a Connection by a new key', LIMIT_MS);
      await takeAway();
      await touchPublicKey(ref.namespace, 'once more');
      await eventually(exists, 'a Connection by a changed key', LIMIT_MS);
      await takeAway();
      await others.stop();
      await (await parts.manager()).streams.delete('CHANGES'); // or it would know that it has been told of this key
      await setUpAgain();
      others = await parts.startFunctions(PATIENT, OTHERS);
      await eventually(exists, 'a Connection by a key that is told again', LIMIT_MS);
    });
  });
});

/** Which entries of status.tunnels each manager owns, by manager and operation. */
function entriesByManager({ metadata }: Connection): Record<string, string[]> {
  const owners: Record<string, string[]> = {};
  for (const { manager, operation, subresource, fieldsV1 } of metadata.managedFields ?? []) {
    const tunnels = (fieldsV1 as { 'f:status'?: { 'f:tunnels'?: object } })['f:status']?.['f:tunnels'];
    if (tunnels === undefined || subresource !== 'status') continue;
    const entries = Object.keys(tunnels).filter((key) => key.startsWith('k:'));
    owners[`${manager} ${operation}`] = entries.map((key) => JSON.parse(key.slice(2)).interfaceID as string);
  }
  return owners;
}

/** The same Connection with another latency of one tunnel. */
function withLatency(connection: Connection, interfaceId: string): Connection {
  const latency = { value: '99ms', timestamp: '2026-01-01T00:00:00Z' };
  const edited = (entry: TunnelEntry) => (entry.interfaceID === interfaceId ? { ...entry, latency } : entry);
  const tunnels = connection.status?.tunnels?.map(edited) ?? [];
  return { ...connection, status: { ...connection.status, tunnels } };
}
