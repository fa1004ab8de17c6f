import { KubernetesConnectionStore } from '../../../shared/adapters/kubernetes-connection-store.ts';
import type { BusMessage } from '../../../shared/domain/cloud-event.ts';
import type { ConnectionRef, TunnelEntry } from '../../../shared/domain/connection.ts';
import { interfaceIdOf } from '../../../shared/domain/tunnel-interface.ts';
import { initialEntry } from '../../../shared/domain/tunnel-status.ts';
import { eventually } from '../../support/eventually.ts';
import type { KubernetesUnderTest } from '../../support/kubernetes.ts';
import { quantile } from '../statistics.ts';
import {
  connectionsOf,
  desiredConnection,
  type Fleet,
  type FleetTunnel,
  listedMessage,
  observationMessage,
  tunnelsOf,
  uidOf,
} from './fleet.ts';
import { Handler, handledBy } from './handler.ts';
import type { HandlerConfig, HandlerSample } from './handler-process.ts';
import { Observations } from './observations.ts';
import { growthPerMinute, whileSampling } from './sampling.ts';

const SETTLE_LIMIT_MS = 120_000;
const MIB = 2 ** 20;
const UPDATE_INTERVAL_MS = 10_000;
/** Growth is what goes on after the first part of a run, in which caches fill and code gets compiled. */
const WARM_UP_SHARE = 1 / 3;
const API_WRITERS = 16;
const WRITE_MS = 2_000;
const WALL = { connections: 250, tunnels: 4, perSecond: 1_000 } as const;
const FLAP_EVERY = 200;
const WRITTEN_BEFORE = '2026-01-01T00:00:00Z';

export type DrainOptions = {
  readonly fleet: Fleet;
  readonly events: number;
  readonly replicas: number;
  readonly work: HandlerConfig['work'];
};

export type Drain = {
  /** From when the handlers may begin until the last event is settled. */
  readonly eventsPerSecond: number;
  /** CPU of the handlers, whatever else the machine was busy with. */
  readonly eventsPerCpuSecond: number;
};

/** How fast a backlog goes: listings and first writes are settled before, then `events` observations wait for the handlers. */
export async function drain({ fleet, events, replicas, work }: DrainOptions): Promise<Drain> {
  await using observations = await Observations.open();
  const config = { natsUrl: observations.server.url, fleet, updateStatusIntervalMs: UPDATE_INTERVAL_MS };
  {
    await using first = await Handler.start({ ...config, work: 'tunnel-status' });
    first.begin();
    await listAndConnect(observations, fleet);
  }
  const tunnels = tunnelsOf(fleet);
  await observations.publish(rounds(tunnels, 1, Math.ceil(events / tunnels.length)));
  const backlog = await observations.waiting();
  await using cleanUp = new AsyncDisposableStack();
  const starting = Array.from({ length: replicas }, async () => cleanUp.use(await Handler.start({ ...config, work })));
  const handlers = await Promise.all(starting);
  const cpuMs = async () => {
    const samples = await Promise.all(handlers.map((handler) => handler.sample()));
    return samples.reduce((sum, sample) => sum + sample.cpuMs, 0);
  };
  const startMs = performance.now();
  for (const handler of handlers) handler.begin();
  const startCpuMs = await cpuMs();
  await observations.untilSettled(SETTLE_LIMIT_MS);
  const tookMs = performance.now() - startMs;
  return {
    eventsPerSecond: (backlog / tookMs) * 1_000,
    eventsPerCpuSecond: (backlog / ((await cpuMs()) - startCpuMs)) * 1_000,
  };
}

export type SteadyLoad = {
  /** As the stream counts it, headers and subject included. */
  readonly storedBytesPerEvent: number;
  readonly storedBytesPerDecision: number;
  readonly lagP50Ms: number;
  readonly lagP99Ms: number;
  readonly lagGrowthMsPerMinute: number;
  /** Live heap: what a full collection leaves at the end. */
  readonly heapMib: number;
  readonly heapGrowthMibPerMinute: number;
  readonly residentMib: number;
  readonly residentGrowthMibPerMinute: number;
  readonly cores: number;
  readonly publisherBehindMs: number;
  readonly writesPerSecond: number;
  /** Of the events that the stream took, those that no handler settled with an outcome. */
  readonly lost: number;
  /** Events that were told apart as older than what had been seen. */
  readonly outOfOrder: number;
};

/** A fleet at a steady rate and one handler, Connections in memory. */
export async function steadyLoad(fleet: Fleet, perSecond: number, durationMs: number): Promise<SteadyLoad> {
  await using observations = await Observations.open();
  const config = { natsUrl: observations.server.url, fleet, updateStatusIntervalMs: UPDATE_INTERVAL_MS };
  await using handler = await Handler.start({ ...config, work: 'tunnel-status' });
  handler.begin();
  await listAndConnect(observations, fleet);
  const tunnels = tunnelsOf(fleet);
  const count = Math.round((perSecond * durationMs) / 1_000 / tunnels.length);
  const before = await handler.sample();
  const publishAndSettle = async () => {
    const behindMs = await observations.publish(rounds(tunnels, 1, Math.max(1, count)), perSecond);
    await observations.untilSettled(SETTLE_LIMIT_MS);
    return behindMs;
  };
  const warmMs = durationMs * WARM_UP_SHARE;
  const { samples, result, tookMs } = await whileSampling(handler, publishAndSettle, warmMs);
  const after = samples.at(-1)?.sample as HandlerSample;
  const ages = samples.flatMap(({ sample }) => sample.agesMs);
  const warm = samples.filter(({ atMs }) => atMs >= warmMs);
  const inMib = (bytes: number | undefined) => bytes && bytes / MIB;
  return {
    storedBytesPerEvent: await observations.bytesPerMessage('OBSERVATIONS'),
    storedBytesPerDecision: await observations.bytesPerMessage('DECISIONS'),
    ...{ lagP50Ms: quantile(ages, 0.5), lagP99Ms: quantile(ages, 0.99), publisherBehindMs: result },
    lagGrowthMsPerMinute: growthPerMinute(warm, ({ agesMs }) =>
      agesMs.length > 0 ? quantile(agesMs, 0.5) : undefined,
    ),
    heapMib: inMib(after.heapBytes) ?? 0,
    heapGrowthMibPerMinute: growthPerMinute(warm, ({ heapBytes }) => inMib(heapBytes)),
    residentMib: after.residentBytes / MIB,
    residentGrowthMibPerMinute: growthPerMinute(warm, ({ residentBytes }) => residentBytes / MIB),
    cores: (after.cpuMs - before.cpuMs) / tookMs,
    writesPerSecond: (((after.outcomes.written ?? 0) - (before.outcomes.written ?? 0)) / tookMs) * 1_000,
    lost: observations.published - handledBy(after) + (after.outcomes.stale ?? 0),
    outOfOrder: after.outcomes.stale ?? 0,
  };
}

const apiFleets = new Map<string, Promise<Fleet>>();

/** Connections of the API server with each entry under its own manager; a fleet of this shape is made once. */
function apiFleet(kubernetes: KubernetesUnderTest, connections: number, tunnels: number): Promise<Fleet> {
  const key = `${connections} × ${tunnels}`;
  const made = apiFleets.get(key) ?? createApiFleet(kubernetes, connections, tunnels);
  apiFleets.set(key, made);
  return made;
}

async function createApiFleet(kubernetes: KubernetesUnderTest, connections: number, tunnels: number): Promise<Fleet> {
  const fleet = { namespace: await kubernetes.namespace(), connections, tunnels };
  const store = new KubernetesConnectionStore(kubernetes.admin);
  const interfaceIds = tunnelsOf({ connections: 1, tunnels }).map(({ interfaceId }) => interfaceId);
  await inTurns(connectionsOf(fleet), API_WRITERS, async (ref) => {
    await store.ensure(desiredConnection(ref));
    for (const interfaceId of interfaceIds) await store.applyTunnel(ref, initialEntry(interfaceId, WRITTEN_BEFORE));
  });
  return fleet;
}

/**
 * Writes as tunnel-status does (read, then apply with that resourceVersion), each writer to a Connection of its own.
 *
 * @returns writes a second
 */
export async function writeRate(
  kubernetes: KubernetesUnderTest,
  { tunnels, writers }: { readonly tunnels: number; readonly writers: number },
): Promise<number> {
  const fleet = await apiFleet(kubernetes, writers, tunnels);
  const store = new KubernetesConnectionStore(kubernetes.admin);
  const startMs = performance.now();
  let writes = 0;
  await inTurns(connectionsOf(fleet), writers, async (ref) => {
    for (let round = 0; performance.now() - startMs < WRITE_MS; round++) {
      const { resourceVersion } = (await store.get(ref))?.metadata ?? {};
      const entry: TunnelEntry = {
        ...{ interfaceID: interfaceIdOf(round % tunnels), value: 'Connected', lastTransitionTime: WRITTEN_BEFORE },
        latency: {
          value: `${1_000 + (Math.trunc(performance.now() * 1_000) % 1_000_000)}µs`,
          timestamp: WRITTEN_BEFORE,
        },
      } as const;
      await store.applyTunnel(ref, entry, { ...(resourceVersion !== undefined && { resourceVersion }) });
      writes += 1;
    }
  });
  return (writes / (performance.now() - startMs)) * 1_000;
}

export type Wall = {
  readonly wantedPerSecond: number;
  readonly writtenPerSecond: number;
  readonly transitionP50Ms: number;
  readonly transitionP99Ms: number;
  readonly transitionsLost: number;
  readonly failed: number;
  readonly lagP99Ms: number;
};

/**
 * One handler and an API server that is asked for more than it can do: every observation is due for a write, as many a second
 * as 10,000 tunnels want with the default update interval. Meanwhile one tunnel in {@link FLAP_EVERY} fails and comes back.
 */
export async function wallOf(kubernetes: KubernetesUnderTest, durationMs: number): Promise<Wall> {
  const shape = await apiFleet(kubernetes, WALL.connections, WALL.tunnels);
  await using observations = await Observations.open();
  const config = { natsUrl: observations.server.url, fleet: shape, kubeconfig: kubernetes.api.kubeconfig };
  await using handler = await Handler.start({ ...config, work: 'tunnel-status', updateStatusIntervalMs: 1_000 });
  handler.begin();
  const store = new KubernetesConnectionStore(kubernetes.admin);
  const uids = new Map<string, string>();
  await inTurns(connectionsOf(shape), API_WRITERS, async (ref) => {
    uids.set(ref.name, (await store.get(ref))?.metadata.uid ?? '');
  });
  await listAndConnect(observations, shape, (ref) => uids.get(ref.name) ?? '');
  const before = await handler.sample();
  const transitionsMs = observations.transitionTimes();
  const tunnels = tunnelsOf(shape);
  const count = Math.max(3, Math.round((WALL.perSecond * durationMs) / 1_000 / tunnels.length));
  let transitions = 0;
  function* flapping(): Generator<BusMessage> {
    for (let round = 1; round <= count; round++) {
      for (const tunnel of tunnels) {
        const isDown = round < count && tunnel.index % FLAP_EVERY === round % FLAP_EVERY;
        if (isDown) transitions += 2; // and back in the next round
        yield observationMessage(tunnel, round, isDown);
      }
    }
  }
  const { samples, tookMs } = await whileSampling(handler, async () => {
    await observations.publish(flapping(), WALL.perSecond);
    await observations.untilSettled(SETTLE_LIMIT_MS);
  });
  const after = samples.at(-1)?.sample as HandlerSample;
  const delta = (outcome: string) => (after.outcomes[outcome] ?? 0) - (before.outcomes[outcome] ?? 0);
  const ages = samples.flatMap(({ sample }) => sample.agesMs);
  await eventually(() => transitionsMs.length >= transitions, 'all transitions').catch(() => {}); // the figure says it
  return {
    ...{ wantedPerSecond: WALL.perSecond, writtenPerSecond: (delta('written') / tookMs) * 1_000 },
    transitionP50Ms: quantile(transitionsMs, 0.5),
    transitionP99Ms: quantile(transitionsMs, 0.99),
    transitionsLost: transitions - transitionsMs.length,
    failed: delta('failed'),
    lagP99Ms: quantile(ages, 0.99),
  };
}

/** Makes all tunnels of a fleet listed and Connected, and waits for it. */
async function listAndConnect(
  observations: Observations,
  fleet: Fleet,
  uid: (ref: ConnectionRef, place: number) => string = (_, place) => uidOf(place),
): Promise<void> {
  const tunnels = tunnelsOf(fleet);
  const places = new Map(connectionsOf(fleet).map(({ name }, place) => [name, place]));
  await observations.publish(
    tunnels.map((tunnel) => listedMessage(tunnel, uid(tunnel.ref, places.get(tunnel.ref.name) ?? 0))),
  );
  await observations.publish(rounds(tunnels, 0, 1));
  await observations.untilSettled(SETTLE_LIMIT_MS);
}

function* rounds(tunnels: readonly FleetTunnel[], first: number, count: number): Generator<BusMessage> {
  for (let round = first; round < first + count; round++) {
    for (const tunnel of tunnels) yield observationMessage(tunnel, round);
  }
}

/** Works on all items, at most `width` of them at a time. */
async function inTurns<Item>(
  items: readonly Item[],
  width: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const source = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = source.next(); !next.done; next = source.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: width }, lane));
}
