import type { BenchCase, Suite } from '../suite.ts';
import { type Load, Measurements, type Outage } from './measurements.ts';

/** The Go reference stands at 3.2, 2.8, 2.2 and 4 times such a floor. */
const LOADS: readonly Load[] = [
  { tunnels: 1, intervalMs: 1 },
  { tunnels: 8, intervalMs: 1 },
  { tunnels: 64, intervalMs: 1 },
  { tunnels: 64, intervalMs: 2_000 },
];
/** Interval and threshold that verdicts are timed at. */
const OUTAGES = [
  { intervalMs: 2_000, lossThreshold: 5 },
  { intervalMs: 100, lossThreshold: 3 },
  { intervalMs: 50, lossThreshold: 3 },
] as const;
const MEMORY: Load = { tunnels: 64, intervalMs: 100 };
/** Thousands of exchanges a second need no longer. */
const FAST_LOAD_MS = 8_000;

let measurements: Measurements | undefined;

function current(): Measurements {
  if (measurements === undefined) throw new Error('the network is made by prepare()');
  return measurements;
}

const nameOf = ({ tunnels, intervalMs }: Load) => `${tunnels} × ${intervalMs} ms`;

function cpuCase(who: 'floor' | 'gateway' | 'gateway and NATS', load: Load): BenchCase {
  return {
    ...{ name: `${who}: ${nameOf(load)}`, unit: 'CPU ms per 1,000 PING+PONG', better: 'lower' },
    ...(who !== 'floor' && { floor: `floor: ${nameOf(load)}` }),
    run: (_, { durationMs }) =>
      current().cpuPerThousand(who, load, load.intervalMs < 1_000 ? Math.min(durationMs, FAST_LOAD_MS) : durationMs),
  };
}

type Figure = Pick<BenchCase, 'name' | 'unit' | 'floor'> & { readonly better?: 'higher' };

function measure({ better, ...figure }: Figure, run: (durationMs: number) => Promise<number>): BenchCase {
  return { ...figure, better: better ?? 'lower', run: (_, { durationMs }) => run(durationMs) };
}

/** Both figures of one outage a repeat. */
function outageCases({ intervalMs, lossThreshold }: (typeof OUTAGES)[number]): BenchCase[] {
  const outages: Promise<Outage>[] = [];
  const nth = (repeat: number) => {
    outages[repeat] ??= current().outage({ tunnels: 64, intervalMs }, lossThreshold);
    return outages[repeat];
  };
  const setting = `64 tunnels, ${intervalMs} ms × ${lossThreshold}`;
  return [
    {
      ...{ name: `Error after its deadline, latest of ${setting}`, unit: 'ms', better: 'lower' },
      run: async (repeat) => (await nth(repeat)).deviationMs,
    },
    {
      ...{ name: `Connected after the peer's return, median of ${setting}`, unit: 'ms', better: 'lower' },
      run: async (repeat) => (await nth(repeat)).recoveryMs,
    },
  ];
}

/** What the ping path costs and how exact it is, against a floor in C and in the same run. */
export const suite: Suite = {
  name: 'gateway',
  summary: 'The ping path between two network namespaces, against the same work in C (floor.c)',
  needs: ['root', 'netns', 'cc', 'tcpdump', 'nats-server'],
  prepare: async () => {
    measurements = await Measurements.prepare();
    return measurements;
  },
  cases: [
    ...LOADS.flatMap((load) => [cpuCase('floor', load), cpuCase('gateway', load)]),
    ...LOADS.slice(1).map((load) => cpuCase('gateway and NATS', load)),
    ...(['floor', 'gateway'] as const).map((who) =>
      measure(
        {
          ...{ name: `${who}: answers`, unit: 'PONGs a CPU second', better: 'higher' },
          ...(who === 'gateway' && { floor: 'floor: answers' }),
        },
        (durationMs) => current().answersPerCpuSecond(who, Math.min(durationMs, FAST_LOAD_MS)),
      ),
    ),
    measure({ name: 'RTT error p99, least of 8, idle', unit: 'µs' }, (durationMs) =>
      current().rttErrorP99Us(0, durationMs),
    ),
    measure(
      {
        name: 'RTT error p99, least of 8, main thread 40 % busy',
        unit: 'µs',
        floor: 'RTT error p99, least of 8, idle',
      },
      (durationMs) => current().rttErrorP99Us(0.4, durationMs),
    ),
    measure({ name: "remote side's p99, NATS answers", unit: 'µs' }, (durationMs) =>
      current().remoteRttP99Us('answers', durationMs),
    ),
    measure(
      { name: "remote side's p99, NATS is stopped", unit: 'µs', floor: "remote side's p99, NATS answers" },
      (durationMs) => current().remoteRttP99Us('is stopped', durationMs),
    ),
    ...OUTAGES.flatMap(outageCases),
    measure({ name: `memory: ${nameOf(MEMORY)}`, unit: 'MiB' }, (durationMs) =>
      current().residentMib(MEMORY, durationMs),
    ),
    measure(
      { name: `memory: ${nameOf(MEMORY)}, three times as long`, unit: 'MiB', floor: `memory: ${nameOf(MEMORY)}` },
      (durationMs) => current().residentMib(MEMORY, 3 * durationMs),
    ),
  ],
};
