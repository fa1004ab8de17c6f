import { ACK_WAIT_MS } from '../../../shared/domain/topology.ts';
import { quantile } from '../statistics.ts';
import type { BenchCase, Suite } from '../suite.ts';
import { longestAfterKill, verdictTimes, writesOf64, writeTimes } from './path.ts';
import { throttled } from './throughput.ts';

const BARE = 'throttled: bare consumer';
const BARE_CPU = 'throttled, CPU: bare consumer';
const WRITES_P50 = 'verdict: its two writes alone, p50';
const WRITES_P99 = 'verdict: its two writes alone, p99';

/** One measurement a repeat, of which several cases show a figure each. */
function oncePerRepeat<Result>(measure: () => Promise<Result>): (repeat: number) => Promise<Result> {
  let last: { readonly repeat: number; readonly result: Promise<Result> } | undefined;
  return (repeat) => {
    if (last?.repeat !== repeat) last = { repeat, result: measure() };
    return last.result;
  };
}

const bare = oncePerRepeat(() => throttled('acks'));
const alone = oncePerRepeat(() => throttled('tunnel-status'));
const pair = oncePerRepeat(() => throttled('tunnel-status', 2));
const verdicts = oncePerRepeat(verdictTimes);
const writes = oncePerRepeat(writeTimes);
const rest = oncePerRepeat(writesOf64);

function ofTime(name: string, run: BenchCase['run'], more: Pick<BenchCase, 'floor' | 'goal'> = {}): BenchCase {
  return { name, unit: 'ms', better: 'lower', run, ...more };
}

function ofRate(name: string, unit: string, run: BenchCase['run'], floor?: string): BenchCase {
  return { name, unit, better: 'higher', run, ...(floor !== undefined && { floor }) };
}

function ofWrites(name: string, run: BenchCase['run'], goal?: number): BenchCase {
  return { name, unit: 'writes a minute', better: 'lower', run, ...(goal !== undefined && { goal }) };
}

export const suite: Suite = {
  name: 'functions',
  summary:
    'What the functions cost and how fast they are: throttled observations by the bus alone, a verdict on its whole path, writes at rest, and a replica that is killed.',
  needs: ['nats-server', 'etcd', 'kube-apiserver'],
  cases: [
    ofRate(BARE, 'events/s', async (repeat) => (await bare(repeat)).eventsPerSecond),
    ofRate('throttled: tunnel-status', 'events/s', async (repeat) => (await alone(repeat)).eventsPerSecond, BARE),
    ofRate('throttled: 2 replicas', 'events/s', async (repeat) => (await pair(repeat)).eventsPerSecond, BARE),
    ofRate(BARE_CPU, 'events/CPU s', async (repeat) => (await bare(repeat)).eventsPerCpuSecond),
    ofRate(
      'throttled, CPU: tunnel-status',
      'events/CPU s',
      async (repeat) => (await alone(repeat)).eventsPerCpuSecond,
      BARE_CPU,
    ),
    ofRate(
      'throttled, CPU: 2 replicas',
      'events/CPU s',
      async (repeat) => (await pair(repeat)).eventsPerCpuSecond,
      BARE_CPU,
    ),
    ofTime(WRITES_P50, async (repeat) => quantile(await writes(repeat), 0.5)),
    ofTime('verdict to status.value, p50', async (repeat) => quantile(await verdicts(repeat), 0.5), {
      floor: WRITES_P50,
      goal: 40,
    }),
    ofTime(WRITES_P99, async (repeat) => quantile(await writes(repeat), 0.99)),
    ofTime('verdict to status.value, p99', async (repeat) => quantile(await verdicts(repeat), 0.99), {
      floor: WRITES_P99,
      goal: 150,
    }),
    ofTime('after SIGKILL of a replica: longest wait of a verdict', longestAfterKill, { goal: ACK_WAIT_MS + 1_000 }),
    // One a tunnel in ten seconds, and one more for the start.
    ofWrites('64 tunnels at rest: tunnels', async (repeat) => (await rest(repeat)).tunnels, 64 * 7),
    ofWrites('64 tunnels at rest: aggregate', async (repeat) => (await rest(repeat)).aggregates),
  ],
};
