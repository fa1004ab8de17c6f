import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { AggregateStatus, Connection, ConnectionRef, TunnelEntry } from '../../shared/domain/connection.ts';
import { KubernetesUnderTest } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';
import { embeddedCluster, realCluster } from './clusters-under-test.ts';
import { aggregate, type ClusterUnderTest, connected, desiredConnection, failed } from './connection-store.contract.ts';

const SEARCH_LIMIT_MS = 120_000;

/** What somebody does to a Connection. */
type Step =
  | { readonly verb: 'applyTunnel' | 'foreignApply'; readonly entry: TunnelEntry }
  | { readonly verb: 'removeTunnel' | 'drop'; readonly name: string }
  | { readonly verb: 'edit' | 'takeOver'; readonly name: string; readonly latency: string }
  | { readonly verb: 'applyAggregate'; readonly status: AggregateStatus };

const latency = fc.constantFrom('1ms', '2ms');
const status = fc.constantFrom<AggregateStatus>(aggregate, {
  ...{ ...aggregate, value: 'Connected' },
  latency: { value: '1ms', timestamp: '2026-01-01T00:00:00Z' },
});
/** Fewer tunnels get in more trouble each. */
const history = fc
  .constantFrom(['t0'], ['t0', 't1'], ['t0', 't1', 't2'])
  .chain((names) => fc.array(stepOf(fc.constantFrom(...names)), { minLength: 1, maxLength: 16, size: 'max' }));

function stepOf(name: fc.Arbitrary<string>): fc.Arbitrary<Step> {
  const entry = fc.oneof(
    fc.tuple(name, latency).map(([interfaceID, value]) => connected(interfaceID, value)),
    name.map(failed),
    name.map(connecting),
  );
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ verb: fc.constant('applyTunnel' as const), entry }) },
    { weight: 2, arbitrary: fc.record({ verb: fc.constant('removeTunnel' as const), name }) },
    { weight: 1, arbitrary: fc.record({ verb: fc.constant('applyAggregate' as const), status }) },
    { weight: 1, arbitrary: fc.record({ verb: fc.constant('foreignApply' as const), entry }) },
    { weight: 1, arbitrary: fc.record({ verb: fc.constant('drop' as const), name }) },
    { weight: 2, arbitrary: fc.record({ verb: fc.constantFrom('edit' as const, 'takeOver' as const), name, latency }) },
  );
}

function connecting(interfaceID: string): TunnelEntry {
  return { interfaceID, value: 'Connecting' };
}

/** Found by longer runs: the API server refused the last apply, as it had made an empty latency null. */
const LATENCY_MADE_BY_AN_EDIT: readonly Step[] = [
  { verb: 'applyTunnel', entry: connecting('t0') },
  { verb: 'edit', name: 't0', latency: '2ms' },
  { verb: 'applyTunnel', entry: connected('t0', '1ms') },
  { verb: 'applyTunnel', entry: failed('t0') },
];

async function take(cluster: ClusterUnderTest, ref: ConnectionRef, step: Step): Promise<void> {
  const store = cluster.store();
  const put = (edit: (entry: TunnelEntry) => TunnelEntry[]) =>
    cluster.foreignPut(ref, 'kubectl-edit', (status) => ({
      ...status,
      ...(status.tunnels && { tunnels: status.tunnels.flatMap(edit) }),
    }));
  switch (step.verb) {
    case 'applyTunnel':
      return void (await store.applyTunnel(ref, step.entry));
    case 'removeTunnel':
      return void (await store.removeTunnel(ref, step.name));
    case 'applyAggregate':
      return void (await store.applyAggregate(ref, step.status));
    case 'foreignApply':
      // A manager a value: one that gave up a part of what it owned might be refused by the real API alone.
      return cluster.foreignApply(ref, `other-${step.entry.interfaceID}-${step.entry.value}`, step.entry);
    case 'drop':
      return put((entry) => (entry.interfaceID === step.name ? [] : [entry]));
    case 'edit':
      return put((entry) => {
        const latency = { value: step.latency, timestamp: '2026-01-01T00:00:01Z' };
        return [entry.interfaceID === step.name ? { ...entry, latency } : entry];
      });
    case 'takeOver':
      return put((entry) => [entry.interfaceID === step.name ? connected(step.name, step.latency) : entry]);
  }
}

/** The status, and who owns which of its leaves. */
function shown(connection: Connection | undefined): object {
  const { tunnels = [], ...others } = connection?.status ?? {};
  const owners = (connection?.metadata.managedFields ?? [])
    .filter(({ subresource }) => subresource === 'status')
    .map(({ manager, operation, fieldsV1 }) => [`${operation} ${manager}`, leavesOf(fieldsV1)] as const)
    .filter(([, leaves]) => leaves.length > 0);
  return { ...others, tunnels: tunnels.toSorted(byName), owners: Object.fromEntries(owners) };
}

function byName(a: TunnelEntry, b: TunnelEntry): number {
  return a.interfaceID < b.interfaceID ? -1 : 1;
}

/** Paths of the values owned; who owns an empty list or map makes no difference to anybody. */
function leavesOf(fields: unknown, at = ''): string[] {
  const children = Object.entries(fields ?? {}).filter(([name]) => name !== '.');
  const isValue = children.length === 0 && !/(^|[}]|f:(status|tunnels|conditions|latency))$/.test(at);
  return isValue ? [at] : children.flatMap(([name, child]) => leavesOf(child, `${at}/${name}`)).sort();
}

await describeReal('Kubernetes, embedded and real', ['kube-apiserver', 'etcd'], () => {
  let real: ClusterUnderTest;
  const cleanUp = new AsyncDisposableStack();

  beforeAll(async () => {
    const kubernetes = cleanUp.use(await KubernetesUnderTest.start());
    const { relay } = await kubernetes.relay();
    real = realCluster(kubernetes, kubernetes.admin, relay);
  }, 120_000);
  afterAll(() => cleanUp.disposeAsync(), 60_000);

  test('show the same status and owners, and move on at the same writes, whatever is done to a Connection', {
    timeout: 2 * SEARCH_LIMIT_MS,
  }, async () => {
    let uids = 0;
    const embedded = embeddedCluster(new EmbeddedKubernetes({ clock: systemClock, newUid: () => `uid-${++uids}` }));
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const desired = desiredConnection(await real.namespace());
        const clusters = [embedded, real];
        const live = async () => Promise.all(clusters.map((cluster) => cluster.store().get(desired.metadata)));
        for (const cluster of clusters) await cluster.store().ensure(desired);
        let before = await live();
        for (const [at, step] of steps.entries()) {
          for (const cluster of clusters) await take(cluster, desired.metadata, step);
          const after = await live();
          const [ours, theirs] = after.map((connection, of) => ({
            ...shown(connection),
            // An empty list is there or not, and nobody cares; that ours write nothing twice matters.
            moved:
              step.verb.startsWith('apply') &&
              connection?.metadata.resourceVersion !== before[of]?.metadata.resourceVersion,
          }));
          expect(ours, `after step ${at + 1}`).toEqual(theirs);
          before = after;
        }
      }),
      // Bounded, so that the seed is told before the test's own time is over: the shortest history may take long to find.
      { numRuns: 60, examples: [[[...LATENCY_MADE_BY_AN_EDIT]]], interruptAfterTimeLimit: SEARCH_LIMIT_MS },
    );
  });
});
