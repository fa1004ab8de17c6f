import { PARTITIONS } from '../../../shared/domain/topology.ts';
import { KubernetesUnderTest } from '../../support/kubernetes.ts';
import type { BenchCase, Suite } from '../suite.ts';
import {
  type Drain,
  type DrainOptions,
  drain,
  type SteadyLoad,
  steadyLoad,
  type Wall,
  wallOf,
  writeRate,
} from './measure.ts';

const EVENTS = 10_000;
/** Of the steady load: caches, the heap and the pages that V8 keeps for later take about a minute to fill. */
const MIN_LOAD_MS = 120_000;
const DRAIN = { connections: 500, tunnels: 4 } as const;
const ACKS = 'drain: acks alone';
const ACKS_CPU = 'CPU: acks alone';
const ONE_WRITER = 'API: one write after another, 1 tunnel';

let kubernetes: Promise<KubernetesUnderTest> | undefined;

/** One long measurement a repeat, of which several cases show a figure each. */
function oncePerRepeat<Result>(measure: (durationMs: number) => Promise<Result>) {
  let last: { readonly repeat: number; readonly result: Promise<Result> } | undefined;
  return (repeat: number, durationMs: number): Promise<Result> => {
    if (last?.repeat !== repeat) last = { repeat, result: measure(durationMs) };
    return last.result;
  };
}

const load = oncePerRepeat((durationMs) =>
  steadyLoad({ connections: 2_500, tunnels: 4 }, 5_000, Math.max(durationMs, MIN_LOAD_MS)),
);
const wall = oncePerRepeat(async (durationMs) => wallOf(await apiServer(), durationMs));

/** Started by the first case that needs it: what comes before has the machine for itself. */
function apiServer(): Promise<KubernetesUnderTest> {
  kubernetes ??= KubernetesUnderTest.start();
  return kubernetes;
}

function ofLoad(
  name: string,
  unit: string,
  better: BenchCase['better'],
  figure: (result: SteadyLoad) => number,
): BenchCase {
  return {
    ...{ name: `5,000 observations/s: ${name}`, unit, better, once: true },
    run: async (repeat, { durationMs }) => figure(await load(repeat, durationMs)),
  };
}

function ofWall(name: string, unit: string, better: BenchCase['better'], figure: (result: Wall) => number): BenchCase {
  return {
    ...{ name: `API wall: ${name}`, unit, better },
    run: async (repeat, { durationMs }) => figure(await wall(repeat, durationMs)),
  };
}

const drains = new Map<string, Promise<Drain>>();

/** A drain of the same shape is measured once a repeat. */
function drained(repeat: number, options: Partial<DrainOptions>): Promise<Drain> {
  const full: DrainOptions = { fleet: DRAIN, events: EVENTS, replicas: 1, work: 'tunnel-status', ...options };
  const key = JSON.stringify([repeat, full]);
  const measured = drains.get(key) ?? drain(full);
  drains.set(key, measured);
  return measured;
}

function byTime(name: string, options: Partial<DrainOptions>, curve?: BenchCase['curve'], floor?: string): BenchCase {
  return {
    ...{ name, unit: 'events/s', better: 'higher', ...(floor && { floor }), ...(curve && { curve }) },
    run: async (repeat) => (await drained(repeat, options)).eventsPerSecond,
  };
}

function byCpu(name: string, options: Partial<DrainOptions>, curve?: BenchCase['curve'], floor?: string): BenchCase {
  return {
    ...{ name, unit: 'events/CPU s', better: 'higher', ...(floor && { floor }), ...(curve && { curve }) },
    run: async (repeat) => (await drained(repeat, options)).eventsPerCpuSecond,
  };
}

const ofPartitions = (partitions: number) => (partitions === PARTITIONS ? {} : { fleet: { ...DRAIN, partitions } });

const byReplicas = (at: number) => ({
  ...{ name: 'drain by replicas', by: 'replicas', at },
  why: 'A partition stays with one replica while that one lives, so what it remembers of it holds; here all share the cores of one machine with the server, so more processes cannot add much.',
});
const byPartitions = (at: number) => ({
  ...{ name: 'drain by partitions', by: 'partitions with work', at },
  why: 'A partition has one event in work at a time, so few partitions leave the handler waiting for acknowledgements to travel; with enough of them it is the CPU that is full.',
});
const byConnections = (at: number) => ({
  ...{ name: 'CPU by Connections', by: 'Connections of 4 tunnels', at },
  why: 'State is a map by tunnel, so an event costs the same whatever their number; more tunnels mean more first writes in the same number of events.',
});
const byTunnels = (at: number) => ({
  ...{ name: 'CPU by tunnels', by: 'tunnels a Connection, 2,000 in all', at },
  why: 'Only a write looks at the whole Connection.',
});
const byEntries = (at: number) => ({
  ...{ name: 'API write by tunnels', by: 'tunnels in the Connection', at },
  why: 'Every Server-Side Apply merges, validates and stores the whole object with the managed fields of every entry, so a write grows with the tunnels beside it: next to nothing at first, linear in the end.',
});

export const suite: Suite = {
  name: 'scale',
  summary:
    'Thousands of tunnels simulated at the bus: tunnel-status with a real nats-server and Connections in memory, then against a real kube-apiserver, which is the first wall.',
  needs: ['nats-server', 'etcd', 'kube-apiserver'],
  prepare: async () => ({
    [Symbol.asyncDispose]: async () => (await kubernetes)?.[Symbol.asyncDispose](),
  }),
  cases: [
    byTime(ACKS, { work: 'acks' }),
    byTime('drain: tunnel-status', {}, byReplicas(1), ACKS),
    byTime('drain: 2 replicas', { replicas: 2 }, byReplicas(2), ACKS),
    byTime('drain: 4 replicas', { replicas: 4 }, byReplicas(4), ACKS),
    ...[1, 4, PARTITIONS].map((partitions) =>
      byTime(`drain: ${partitions} partitions`, ofPartitions(partitions), byPartitions(partitions), ACKS),
    ),
    byCpu(ACKS_CPU, { work: 'acks' }),
    ...[20, 200, 2_000].map((connections) =>
      byCpu(
        `CPU: ${connections} Connections`,
        { fleet: { connections, tunnels: 4 } },
        byConnections(connections),
        ACKS_CPU,
      ),
    ),
    ...[1, 4, 16, 64].map((tunnels) =>
      byCpu(
        `CPU: ${tunnels} tunnels a Connection`,
        { fleet: { connections: Math.ceil(2_000 / tunnels), tunnels } },
        byTunnels(tunnels),
        ACKS_CPU,
      ),
    ),
    ofLoad('stored, an observation', 'bytes', 'lower', ({ storedBytesPerEvent }) => storedBytesPerEvent),
    ofLoad('stored, a decision', 'bytes', 'lower', ({ storedBytesPerDecision }) => storedBytesPerDecision),
    ofLoad('lag, p50', 'ms', 'lower', ({ lagP50Ms }) => lagP50Ms),
    ofLoad('lag, p99', 'ms', 'lower', ({ lagP99Ms }) => lagP99Ms),
    ofLoad('lag growth', 'ms a minute', 'lower', ({ lagGrowthMsPerMinute }) => lagGrowthMsPerMinute),
    ofLoad('live heap of the handler', 'MiB', 'lower', ({ heapMib }) => heapMib),
    ofLoad('live heap, growth', 'MiB a minute', 'lower', ({ heapGrowthMibPerMinute }) => heapGrowthMibPerMinute),
    ofLoad('resident memory of the handler', 'MiB', 'lower', ({ residentMib }) => residentMib),
    ofLoad('resident memory, growth', 'MiB a minute', 'lower', ({ residentGrowthMibPerMinute: growth }) => growth),
    ofLoad('CPU of the handler', 'cores', 'lower', ({ cores }) => cores),
    ofLoad('publisher behind its schedule at the end', 'ms', 'lower', ({ publisherBehindMs }) => publisherBehindMs),
    ofLoad('status writes', 'a second', 'higher', ({ writesPerSecond }) => writesPerSecond),
    ofLoad('events lost', 'events', 'lower', ({ lost }) => lost),
    ofLoad('events out of order', 'events', 'lower', ({ outOfOrder }) => outOfOrder),
    ...[1, 4, 16, 64].map(
      (tunnels): BenchCase => ({
        name: tunnels === 1 ? ONE_WRITER : `API: one write after another, ${tunnels} tunnels`,
        ...{
          unit: 'ms a write',
          better: 'lower',
          ...(tunnels > 1 && { floor: ONE_WRITER }),
          curve: byEntries(tunnels),
        },
        run: async () => 1_000 / (await writeRate(await apiServer(), { tunnels, writers: 1 })),
      }),
    ),
    {
      ...{ name: 'API: 16 Connections written at once, 4 tunnels', unit: 'writes/s', better: 'higher' },
      run: async () => writeRate(await apiServer(), { tunnels: 4, writers: 16 }),
    },
    ofWall('wanted refreshes', 'a second', 'higher', ({ wantedPerSecond }) => wantedPerSecond),
    ofWall('written', 'a second', 'higher', ({ writtenPerSecond }) => writtenPerSecond),
    ofWall('observation to written transition, p50', 'ms', 'lower', ({ transitionP50Ms }) => transitionP50Ms),
    ofWall('observation to written transition, p99', 'ms', 'lower', ({ transitionP99Ms }) => transitionP99Ms),
    ofWall('transitions lost', 'transitions', 'lower', ({ transitionsLost }) => transitionsLost),
    ofWall('lag, p99', 'ms', 'lower', ({ lagP99Ms }) => lagP99Ms),
    ofWall('failed writes', 'events', 'lower', ({ failed }) => failed),
  ],
};
