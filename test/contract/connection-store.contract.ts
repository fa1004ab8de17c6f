import { describe, expect, onTestFinished, test } from 'vitest';
import type { Change } from '../../shared/domain/change.ts';
import type {
  AggregateStatus,
  Connection,
  ConnectionRef,
  ConnectionStatus,
  DesiredConnection,
  TunnelEntry,
} from '../../shared/domain/connection.ts';
import { isNewerResourceVersion, REMOTE_CLUSTER_ID_LABEL } from '../../shared/domain/connection.ts';
import type { ChangeFeed, ConnectionStore, StoreErrorCode } from '../../shared/ports/connection-store.ts';

/** A cluster under test: clients of ours, and what others do to its objects. */
export type ClusterUnderTest = {
  store(): ConnectionStore;
  feed(namespaces?: readonly string[]): ChangeFeed;
  /** A namespace that no other test uses. */
  namespace(): Promise<string>;
  /** A PUT of the status by `manager`. */
  foreignPut(ref: ConnectionRef, manager: string, edit: (status: ConnectionStatus) => ConnectionStatus): Promise<void>;
  /** Server-Side Apply of a tunnel's entry by another manager than the tunnel's. */
  foreignApply(ref: ConnectionRef, manager: string, entry: TunnelEntry): Promise<void>;
  /** A PUT of labels, owner references and spec. */
  foreignReplace(desired: DesiredConnection): Promise<void>;
  deleteConnection(ref: ConnectionRef): Promise<void>;
  createPublicKey(ref: ConnectionRef, remoteClusterId: string): Promise<void>;
  deletePublicKey(ref: ConnectionRef): Promise<void>;
  /** No feed sees anything while `during` runs. */
  whileBlind(during: () => Promise<void>): Promise<void>;
};

const T0 = '2026-01-01T00:00:00Z';
const T1 = '2026-01-01T00:00:01Z';

export function desiredConnection(namespace: string, gateway = 'alpha', uid = 'gateway-uid-1'): DesiredConnection {
  return {
    metadata: {
      namespace,
      name: `gw-${gateway}`,
      labels: { [REMOTE_CLUSTER_ID_LABEL]: 'cluster-b' },
      ownerReferences: [{ apiVersion: 'networking.liqo.io/v1beta1', kind: 'GatewayServer', name: gateway, uid }],
    },
    spec: {
      type: 'Server',
      gatewayRef: {
        apiVersion: 'networking.liqo.io/v1beta1',
        kind: 'WgGatewayServer',
        name: gateway,
        namespace,
        uid,
      },
    },
  };
}

export function connected(interfaceID: string, latency = '1.234ms'): TunnelEntry {
  return { interfaceID, value: 'Connected', latency: { value: latency, timestamp: T0 }, lastTransitionTime: T0 };
}

export function failed(interfaceID: string): TunnelEntry {
  const reason = 'NoReply';
  return { interfaceID, value: 'Error', reason, message: `no PONG since ${T0}`, lastTransitionTime: T0 };
}

export const aggregate: AggregateStatus = {
  value: 'Error',
  conditions: [
    { type: 'Ready', status: 'False', reason: 'TunnelDown', message: 'liqo-tunnel', lastTransitionTime: T0 },
  ],
};

/** As somebody leaves it who changes the latency by hand. */
function edited(entry: TunnelEntry): TunnelEntry {
  return { ...entry, latency: { value: '9ms', timestamp: T0 } };
}

/** Resolves to what the call rejects with. */
export async function codeOf(call: Promise<unknown>): Promise<StoreErrorCode | string> {
  return call.then(
    () => 'resolved',
    (error) => error.code ?? `${error}`,
  );
}

/** Managers of the status by name, as managedFields tells them. */
function managersOf({ metadata }: Connection): string[] {
  const ofStatus = (metadata.managedFields ?? []).filter(({ subresource }) => subresource === 'status');
  return ofStatus.map(({ manager }) => manager ?? '').sort();
}

/** Runs a feed until the test ends and collects what it tells. */
export async function runFeed(
  feed: ChangeFeed,
  told: readonly Change[] = [],
): Promise<{ changes: Change[]; lines: () => string[] }> {
  const changes: Change[] = [];
  const stop = new AbortController();
  const run = feed.run(async (change) => void changes.push(change), stop.signal, told);
  onTestFinished(async () => {
    stop.abort();
    await run;
  });
  await expect.poll(() => feed.health().live, { timeout: 10_000 }).toBe(true);
  return { changes, lines: () => changes.map(({ type, kind, object }) => `${type} ${kind} ${object.metadata.name}`) };
}

/** The cases that every cluster has to pass, embedded or real. */
export function describeConnectionStore(cluster: () => ClusterUnderTest): void {
  async function created(): Promise<{ store: ConnectionStore; ref: ConnectionRef; connection: Connection }> {
    const store = cluster().store();
    const { connection } = await store.ensure(desiredConnection(await cluster().namespace()));
    const { namespace, name } = connection.metadata;
    return { store, ref: { namespace, name }, connection };
  }

  describe('ensure', () => {
    test('creates a Connection without a status, and changes nothing when repeated', async () => {
      const { store, ref, connection } = await created();
      const desired = desiredConnection(ref.namespace);

      const again = await store.ensure(desired);

      expect(connection.status).toBeUndefined();
      expect(connection.spec).toEqual(desired.spec);
      expect(connection.metadata.labels).toEqual(desired.metadata.labels);
      expect(connection.metadata.ownerReferences).toEqual(desired.metadata.ownerReferences);
      expect(again.change).toBe('none');
      expect(again.connection.metadata).toMatchObject({
        uid: connection.metadata.uid,
        resourceVersion: connection.metadata.resourceVersion,
      });
    });

    test('mends label, owner and spec, keeps those of others, and leaves the status alone', async () => {
      const { store, ref } = await created();
      const applied = await store.applyTunnel(ref, connected('liqo-tunnel'));
      const desired = desiredConnection(ref.namespace);
      const foreignOwner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'other-uid' };
      const [owner] = desired.metadata.ownerReferences;
      await cluster().foreignReplace({
        metadata: {
          ...desired.metadata,
          labels: { theirs: 'stays' },
          ownerReferences: [foreignOwner, { ...owner, uid: 'uid-of-the-predecessor' } as never],
        },
        spec: { ...desired.spec, type: 'Client' },
      });

      const { connection, change } = await store.ensure(desired);

      expect(change).toBe('updated');
      expect(connection.metadata.labels).toEqual({ theirs: 'stays', ...desired.metadata.labels });
      expect(connection.metadata.ownerReferences).toEqual([foreignOwner, owner]);
      expect(connection.spec).toEqual(desired.spec);
      expect(connection.status).toEqual(applied.status);
      expect((await store.ensure(desired)).change).toBe('none');
    });

    test('settles a race of clients that create the same Connection', async () => {
      const desired = desiredConnection(await cluster().namespace());

      const results = await Promise.all(Array.from({ length: 4 }, () => cluster().store().ensure(desired)));

      expect(results.map(({ change }) => change).sort()).toEqual(['created', 'none', 'none', 'none']);
      expect(new Set(results.map(({ connection }) => connection.metadata.uid)).size).toBe(1);
    });

    test('gives a recreated namesake a new uid and no status', async () => {
      const { store, ref, connection } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await cluster().deleteConnection(ref);

      expect(await store.get(ref)).toBeUndefined();
      const { connection: successor, change } = await store.ensure(desiredConnection(ref.namespace));

      expect(change).toBe('created');
      expect(successor.metadata.uid).not.toBe(connection.metadata.uid);
      expect(successor.status).toBeUndefined();
    });
  });

  describe('tunnels', () => {
    test('entries of two managers live side by side, each owned by its own', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await cluster().store().applyTunnel(ref, failed('liqo-tunnel1'));

      const live = await store.get(ref);

      expect(live?.status?.tunnels).toEqual([connected('liqo-tunnel'), failed('liqo-tunnel1')]);
      expect(live && managersOf(live)).toEqual(['liqo-tunnel', 'liqo-tunnel1']);
    });

    test('what an entry leaves out is cleared', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      const down = await store.applyTunnel(ref, failed('liqo-tunnel'));
      const up = await store.applyTunnel(ref, connected('liqo-tunnel'));

      expect(down.status?.tunnels).toEqual([failed('liqo-tunnel')]);
      expect(up.status?.tunnels).toEqual([connected('liqo-tunnel')]);
    });

    test('aggregate and tunnels do not disturb each other', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      const latency = { value: '1.234ms', timestamp: T0 };
      await store.applyAggregate(ref, { ...aggregate, value: 'Connected', latency });
      await store.applyTunnel(ref, failed('liqo-tunnel'));
      const live = await store.applyAggregate(ref, aggregate);

      expect(live.status).toEqual({ ...aggregate, tunnels: [failed('liqo-tunnel')] });
      expect((await store.removeTunnel(ref, 'liqo-tunnel')).status).toEqual(aggregate);
    });

    test('the same again keeps the resource version', async () => {
      const { store, ref } = await created();
      const first = await store.applyTunnel(ref, connected('liqo-tunnel'));
      const again = await store.applyTunnel(ref, connected('liqo-tunnel'));
      const moved = await store.applyAggregate(ref, aggregate);
      const still = await store.applyAggregate(ref, aggregate);

      expect(again.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
      expect(isNewerResourceVersion(moved.metadata.resourceVersion, first.metadata.resourceVersion)).toBe(true);
      expect(still.metadata.resourceVersion).toBe(moved.metadata.resourceVersion);
    });

    test('its own manager takes an entry away, and no other', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await store.applyTunnel(ref, connected('liqo-tunnel1'));

      const live = await store.removeTunnel(ref, 'liqo-tunnel1');

      expect(live.status?.tunnels).toEqual([connected('liqo-tunnel')]);
      expect(managersOf(live)).toEqual(['liqo-tunnel']);
      const again = await store.removeTunnel(ref, 'liqo-tunnel1');
      expect(again.metadata.resourceVersion).toBe(live.metadata.resourceVersion);
    });

    test.for([
      { what: 'edited by a foreign PUT', left: (before: TunnelEntry) => edited(before) },
      { what: 'taken over by a foreign PUT', left: ({ interfaceID }: TunnelEntry) => failed(interfaceID) },
    ])('what an entry leaves out is cleared though it is $what', async ({ left }) => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await cluster().foreignPut(ref, 'kubectl-edit', ({ tunnels = [] }) => ({ tunnels: tunnels.map(left) }));

      const down = await store.applyTunnel(ref, failed('liqo-tunnel'));
      const up = await store.applyTunnel(ref, connected('liqo-tunnel'));

      expect(down.status?.tunnels).toEqual([failed('liqo-tunnel')]);
      expect(up.status?.tunnels).toEqual([connected('liqo-tunnel')]);
    });

    test('what an entry leaves out is cleared though a foreign PUT made the place for it', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, { interfaceID: 'liqo-tunnel', value: 'Connecting' });
      await cluster().foreignPut(ref, 'kubectl-edit', ({ tunnels = [] }) => ({ tunnels: tunnels.map(edited) }));
      // Owns both parts of the latency from here on, but not the latency that holds them.
      await store.applyTunnel(ref, { ...connected('liqo-tunnel'), latency: { value: '1ms', timestamp: T1 } });

      const down = await store.applyTunnel(ref, failed('liqo-tunnel'));
      const up = await store.applyTunnel(ref, connected('liqo-tunnel'));

      expect(down.status?.tunnels).toEqual([failed('liqo-tunnel')]);
      expect(up.status?.tunnels).toEqual([connected('liqo-tunnel')]);
    });

    test('a latency that the aggregate leaves out is cleared though a foreign PUT made the place for it', async () => {
      const { store, ref } = await created();
      const before = { value: '9ms', timestamp: T0 };
      const after = { value: '1ms', timestamp: T1 };
      await cluster().foreignPut(ref, 'go-keepalive', (status) => ({ ...status, value: 'Connected', latency: before }));
      await store.applyAggregate(ref, { ...aggregate, value: 'Connected', latency: after });

      const down = await store.applyAggregate(ref, aggregate);
      const up = await store.applyAggregate(ref, { ...aggregate, value: 'Connected', latency: after });

      expect(down.status).toEqual(aggregate);
      expect(up.status).toEqual({ ...aggregate, value: 'Connected', latency: after });
    });

    test('a latency that the aggregate leaves out is cleared though a foreign PUT owns it', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      const latency = { value: '9ms', timestamp: T0 };
      await cluster().foreignPut(ref, 'go-keepalive', (status) => ({ ...status, value: 'Connected', latency }));

      const live = await store.applyAggregate(ref, aggregate);

      expect(live.status).toEqual({ ...aggregate, tunnels: [connected('liqo-tunnel')] });
      expect(await store.get(ref)).toEqual(live);
    });

    test.for([
      { what: 'edited by a foreign PUT', before: 2, edit: edited },
      { what: 'edited by a foreign PUT, the only one,', before: 1, edit: edited },
      { what: 'taken over by a foreign PUT', before: 2, edit: ({ interfaceID }: TunnelEntry) => failed(interfaceID) },
      {
        what: 'taken over by a foreign PUT, the only one,',
        before: 1,
        edit: ({ interfaceID }: TunnelEntry) => failed(interfaceID),
      },
    ])('C13: an entry $what goes away without a rest', async ({ before, edit }) => {
      const { store, ref } = await created();
      const names = ['liqo-tunnel1', 'liqo-tunnel'].slice(0, before);
      for (const name of names) await store.applyTunnel(ref, connected(name));
      await cluster().foreignPut(ref, 'kubectl-edit', (status) => ({
        ...status,
        tunnels: (status.tunnels ?? []).map((entry) => (entry.interfaceID === 'liqo-tunnel1' ? edit(entry) : entry)),
      }));

      const live = await store.removeTunnel(ref, 'liqo-tunnel1');

      expect(live.status?.tunnels ?? []).toEqual(names.slice(1).map((name) => connected(name)));
      expect(await store.get(ref)).toEqual(live);
      expect(JSON.stringify(live.metadata.managedFields)).not.toContain('liqo-tunnel1');
    });

    test('C13: an entry that only a foreign PUT put there goes away', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await cluster().foreignPut(ref, 'kubectl-edit', ({ tunnels = [] }) => ({
        tunnels: [...tunnels, failed('stray')],
      }));

      const live = await store.removeTunnel(ref, 'stray');

      expect(live.status?.tunnels).toEqual([connected('liqo-tunnel')]);
    });

    test('C13: an entry that two managers apply goes away', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await cluster().foreignApply(ref, 'initialiser', connected('liqo-tunnel'));

      const live = await store.removeTunnel(ref, 'liqo-tunnel');

      expect(live.status?.tunnels ?? []).toEqual([]);
    });

    test('an entry is taken back from a foreign PUT by the next apply', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      await cluster().foreignPut(ref, 'kubectl-edit', () => ({ tunnels: [failed('liqo-tunnel')] }));

      const live = await store.applyTunnel(ref, connected('liqo-tunnel', '2ms'));

      expect(live.status?.tunnels?.[0]).toMatchObject({ value: 'Connected', latency: { value: '2ms' } });
    });
  });

  describe('refuses', () => {
    test('a stale resource version as a conflict, and writes nothing', async () => {
      const { store, ref, connection } = await created();
      const stale = { resourceVersion: connection.metadata.resourceVersion };
      const live = await store.applyTunnel(ref, connected('liqo-tunnel'), stale);

      expect(await codeOf(store.applyTunnel(ref, failed('liqo-tunnel'), stale))).toBe('conflict');
      expect(await codeOf(store.removeTunnel(ref, 'liqo-tunnel', stale))).toBe('conflict');
      expect(await codeOf(store.applyAggregate(ref, aggregate, stale))).toBe('conflict');
      expect(await store.get(ref)).toEqual(live);
    });

    test('a missing Connection as not found', async () => {
      const store = cluster().store();
      const ref = { namespace: await cluster().namespace(), name: 'gw-nowhere' };

      expect(await store.get(ref)).toBeUndefined();
      expect(await codeOf(store.applyTunnel(ref, connected('liqo-tunnel')))).toBe('not-found');
      expect(await codeOf(store.removeTunnel(ref, 'liqo-tunnel'))).toBe('not-found');
      expect(await codeOf(store.applyAggregate(ref, aggregate))).toBe('not-found');
    });

    test.for<[string, Partial<TunnelEntry>]>([
      ['a value out of the list', { value: 'Fine' as never }],
      ['a latency that is no duration', { latency: { value: 'N/A', timestamp: T0 } }],
      ['a negative latency', { latency: { value: '-1ms', timestamp: T0 } }],
      ['a latency without a unit', { latency: { value: '12', timestamp: T0 } }],
      ['a time that is none', { latency: { value: '1ms', timestamp: 'yesterday' } }],
      ['an interface without a name', { interfaceID: '' }],
      ['a name longer than a field manager', { interfaceID: 'x'.repeat(129) }],
    ])('%s as invalid', async ([, fault]) => {
      const { store, ref } = await created();
      const live = await store.applyTunnel(ref, connected('liqo-tunnel'));

      expect(await codeOf(store.applyTunnel(ref, { ...connected('liqo-tunnel'), ...fault }))).toBe('invalid');
      expect(await store.get(ref)).toEqual(live);
    });

    test('a call that its signal gives up', async () => {
      const { store, ref } = await created();
      const signal = AbortSignal.abort();

      expect(await codeOf(store.get(ref, { signal }))).toBe('unavailable');
      expect(await codeOf(store.applyTunnel(ref, connected('liqo-tunnel'), { signal }))).toBe('unavailable');
    });
  });

  describe('the change feed', () => {
    test('tells what there is, then each change once and in order, without managedFields', async () => {
      const { store, ref } = await created();
      await store.applyTunnel(ref, connected('liqo-tunnel'));
      const { changes, lines } = await runFeed(cluster().feed([ref.namespace]));
      await expect.poll(lines).toEqual(['ADDED connections gw-alpha']);

      const value = { ...aggregate, value: 'Connected' as const };
      await store.applyAggregate(ref, aggregate);
      await store.applyAggregate(ref, value);
      await cluster().deleteConnection(ref);
      await store.ensure(desiredConnection(ref.namespace));

      await expect
        .poll(lines)
        .toEqual(['ADDED', 'MODIFIED', 'MODIFIED', 'DELETED', 'ADDED'].map((type) => `${type} connections gw-alpha`));
      const told = changes.map(({ object }) => object as Connection);
      expect(told.map(({ status }) => status?.value)).toEqual([
        undefined,
        'Error',
        'Connected',
        'Connected',
        undefined,
      ]);
      expect(told[0]?.spec).toEqual(desiredConnection(ref.namespace).spec);
      expect(told.every(({ metadata }) => metadata.managedFields === undefined)).toBe(true);
      expect(new Set(told.map(({ metadata }) => metadata.resourceVersion)).size).toBe(5);
    });

    test('tells public keys, of its namespaces only', async () => {
      const namespace = await cluster().namespace();
      const elsewhere = await cluster().namespace();
      const { changes, lines } = await runFeed(cluster().feed([namespace]));

      await cluster().createPublicKey({ namespace: elsewhere, name: 'key-c' }, 'cluster-c');
      await cluster().createPublicKey({ namespace, name: 'key-b' }, 'cluster-b');
      await cluster().deletePublicKey({ namespace, name: 'key-b' });

      await expect.poll(lines).toEqual(['ADDED publickeies key-b', 'DELETED publickeies key-b']);
      expect(changes[0]?.object.metadata.labels).toEqual({ [REMOTE_CLUSTER_ID_LABEL]: 'cluster-b' });
      expect(changes[0]?.object.spec).toEqual({ publicKey: Buffer.alloc(32, 7).toString('base64') });
    });

    test('tells after a blind gap what was deleted, changed and added meanwhile, and is not live in the gap', async () => {
      const namespace = await cluster().namespace();
      const store = cluster().store();
      for (const gateway of ['gone', 'moved', 'same', 'reborn'])
        await store.ensure(desiredConnection(namespace, gateway));
      const feed = cluster().feed([namespace]);
      const { changes, lines } = await runFeed(feed);
      await expect.poll(() => changes.length).toBe(4);
      const before = changes.find(({ object }) => object.metadata.name === 'gw-reborn');
      changes.length = 0;

      await cluster().whileBlind(async () => {
        await expect.poll(() => feed.health().live, { timeout: 10_000 }).toBe(false);
        await cluster().deleteConnection({ namespace, name: 'gw-gone' });
        await cluster().deleteConnection({ namespace, name: 'gw-reborn' });
        await store.ensure(desiredConnection(namespace, 'reborn'));
        await store.applyAggregate({ namespace, name: 'gw-moved' }, aggregate);
        await store.ensure(desiredConnection(namespace, 'new'));
        expect(changes).toEqual([]);
      });

      await expect
        .poll(() => lines().sort(), { timeout: 20_000 })
        .toEqual([
          'ADDED connections gw-new',
          'ADDED connections gw-reborn',
          'DELETED connections gw-gone',
          'DELETED connections gw-reborn',
          'MODIFIED connections gw-moved',
        ]);
      const reborn = changes.filter(({ object }) => object.metadata.name === 'gw-reborn');
      expect(reborn.map(({ type }) => type)).toEqual(['DELETED', 'ADDED']);
      expect(reborn[0]?.object.metadata.uid).toBe(before?.object.metadata.uid);
      await expect.poll(() => feed.health()).toEqual({ live: true });
    });

    test('takes up where an earlier run ended: tells what is gone, changed and new, and nothing twice', async () => {
      const namespace = await cluster().namespace();
      const elsewhere = await cluster().namespace();
      const store = cluster().store();
      for (const gateway of ['gone', 'moved', 'same', 'reborn', 'told-gone']) {
        await store.ensure(desiredConnection(namespace, gateway));
      }
      await store.ensure(desiredConnection(elsewhere, 'elsewhere'));
      await cluster().createPublicKey({ namespace, name: 'key-gone' }, 'cluster-b');
      const first = await runFeed(cluster().feed([namespace, elsewhere]));
      await expect.poll(() => first.changes.length).toBe(7);
      await cluster().deleteConnection({ namespace, name: 'gw-told-gone' });
      await expect.poll(() => first.changes.length).toBe(8);
      const told = [...new Map(first.changes.map((change) => [change.object.metadata.name, change])).values()];

      await cluster().deleteConnection({ namespace, name: 'gw-gone' });
      await cluster().deletePublicKey({ namespace, name: 'key-gone' });
      await cluster().deleteConnection({ namespace, name: 'gw-reborn' });
      await store.ensure(desiredConnection(namespace, 'reborn'));
      await store.applyAggregate({ namespace, name: 'gw-moved' }, aggregate);
      await store.ensure(desiredConnection(namespace, 'new'));
      const { lines } = await runFeed(cluster().feed([namespace]), told);

      await expect
        .poll(() => lines().sort())
        .toEqual([
          'ADDED connections gw-new',
          'ADDED connections gw-reborn',
          'DELETED connections gw-gone',
          'DELETED connections gw-reborn',
          'DELETED publickeies key-gone',
          'MODIFIED connections gw-moved',
        ]);
    });

    test('waits for a change to be taken before it tells the next, and stops at once', async () => {
      const namespace = await cluster().namespace();
      await cluster().store().ensure(desiredConnection(namespace, 'one'));
      await cluster().store().ensure(desiredConnection(namespace, 'two'));
      const stop = new AbortController();
      const first = Promise.withResolvers<void>();
      const told: string[] = [];
      const feed = cluster().feed([namespace]);
      const run = feed.run(({ object }) => {
        told.push(object.metadata.name);
        return first.promise;
      }, stop.signal);
      await expect.poll(() => told).toEqual(['gw-one']);

      stop.abort();
      first.resolve();
      await run;

      expect(told).toEqual(['gw-one']);
      expect(feed.health().live).toBe(false);
    });

    test('ends with what its listener throws', async () => {
      const namespace = await cluster().namespace();
      await cluster().store().ensure(desiredConnection(namespace));

      const run = cluster()
        .feed([namespace])
        .run(() => Promise.reject(new Error('the bus is closed')), new AbortController().signal);

      await expect(run).rejects.toThrow('the bus is closed');
    });
  });
}
