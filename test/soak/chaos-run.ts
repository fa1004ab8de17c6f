import { setTimeout as sleep } from 'node:timers/promises';
import { CATALOG } from '../../functions/catalog.ts';
import { LAB_GATEWAYS } from '../../infra/lab/lab.ts';
import { type RealLab, startRealLab } from '../../infra/lab/real-lab.ts';
import { runScenario } from '../../infra/lab/run-scenario.ts';
import { usersOf } from '../../infra/nats/make-users.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import { formatDuration } from '../../shared/domain/duration.ts';
import type { TunnelEvent } from '../../shared/domain/observation.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import type { StreamName } from '../../shared/domain/topology.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import type { StoredMessage } from '../../shared/ports/event-bus.ts';
import type { EventHistory } from '../../shared/ports/event-history.ts';
import { Random } from '../simulation/random.ts';
import { connectionWrites } from '../support/audit-log.ts';
import { improperWrites } from '../support/improper-writes.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { nextBlow, strike } from './chaos.ts';
import { counterpart, grown, type Holdings, holdingsOf } from './holdings.ts';
import { LAB_NEEDS, type LongCase } from './long-case.ts';
import { NatsKeys } from './nats-keys.ts';
import { judgeRun, type RunVerdict } from './verdict.ts';

export type ChaosOptions = { readonly seed: number; readonly tunnels: number; readonly replicas: number };

const PING = { ...DEFAULT_PING_SETTINGS, intervalMs: 1_000, updateStatusIntervalMs: 5_000 };
const FUNCTIONS = { updateStatusIntervalMs: 5_000, gatewaySilentAfterMs: 30_000 };
const MAX_PAUSE_MS = 5_000;
/** From the last blow until everything must be well again; of the first start too. */
const CALM_LIMIT_MS = 120_000;
/** What was started a moment ago still grows. */
const SETTLE_MS = 10_000;

/** Blow after blow, and in the end: nothing lost, nothing stale, the aggregate exact, nothing grown. */
export function chaosRun({ seed, tunnels, replicas }: ChaosOptions): LongCase {
  return {
    name: `chaos, seed ${seed}`,
    title: `${tunnels} tunnels and ${replicas} replicas of every function on real parts`,
    needs: [...LAB_NEEDS, 'faketime'],
    durationMs: 0,
    async run({ durationMs, say, signal }) {
      await using keys = await NatsKeys.create(usersOf(LAB_GATEWAYS.map(({ namespace }) => namespace)));
      const lab = await startRealLab({
        ...{ tunnels, replicas, ping: PING, functions: FUNCTIONS, log: silentLogger, steppableClock: true },
        natsUsers: keys,
      });
      let faults: readonly string[] = ['it did not come to its end'];
      try {
        faults = await underChaos(lab);
      } finally {
        await lab.stop({ keepLogs: faults.length > 0 });
        if (faults.length > 0) say(`logs and audit log: ${lab.folder}`);
      }
      return faults;

      async function underChaos(lab: RealLab): Promise<readonly string[]> {
        const started = await whatKeepsFromCalm(lab, tunnels, signal);
        if (started.length > 0) return started;
        await lab.rotateToken(); // the first token cannot be revoked
        await sleep(SETTLE_MS, undefined, { signal });
        const before = await holdings(lab);
        const random = new Random(seed);
        const endMs = performance.now() + durationMs;
        while (performance.now() < endMs && !signal.aborted) {
          const blow = nextBlow({ lab, keys, tunnels }, random);
          say(`${blow.name}${blow.lastsMs > 0 ? ` for ${formatDuration(blow.lastsMs)}` : ''}`);
          await strike(blow, signal);
          await sleep(random.integer(0, MAX_PAUSE_MS), undefined, { signal }).catch(() => {});
        }
        say('calm');
        const calm = await whatKeepsFromCalm(lab, tunnels, signal);
        await sleep(SETTLE_MS);
        const after = await holdings(lab);
        const { verdict, improper } = await judge(lab, tunnels);
        const { transitions, written, superseded, writes, lost, stale } = verdict;
        say(
          `${transitions} transitions: ${written} written, ${superseded} superseded while the API server did not take them, ${lost.length} lost`,
        );
        say(`${writes} writes of tunnels, ${stale.length} of them stale`);
        for (const now of after) {
          const { name, pid, sockets, residentMib } = now;
          const then = counterpart(before, now);
          say(
            `${name} ${pid}${then?.pid === pid ? '' : ', new since'}: ${then?.sockets} sockets became ${sockets}, ${then?.residentMib.toFixed()} MiB became ${residentMib.toFixed()}`,
          );
        }
        const nothing = Math.min(transitions, writes) > 0 ? [] : ['no transition, or no write: it shows nothing'];
        return [
          ...calm,
          ...nothing,
          ...lost.map((line) => `lost: ${line}`),
          ...stale,
          ...improper,
          ...grown(before, after),
        ];
      }
    },
  };
}

/** Waits until both Connections are Connected with all tunnels and the exact mean; what is wrong when the time is up. */
async function whatKeepsFromCalm(lab: RealLab, tunnels: number, signal: AbortSignal): Promise<readonly string[]> {
  const values = Object.fromEntries(
    Array.from({ length: tunnels }, (_, index) => [interfaceIdOf(index), 'Connected'] as const),
  );
  const expectation = { byMs: 0, connections: 'all', value: 'Connected', tunnels: values } as const;
  const scenario = { steps: [], expectations: [expectation] };
  const { failures } = await runScenario(lab, scenario, { clock: systemClock, graceMs: CALM_LIMIT_MS, signal });
  return failures;
}

/** Of each process of the product, and of NATS and the API server. */
async function holdings(lab: RealLab): Promise<readonly Holdings[]> {
  const names = [...CATALOG.map(({ manifest }) => manifest.name), ...LAB_GATEWAYS.map(({ mode }) => mode)];
  const processes = [
    ...names.flatMap((name) => lab.processesOf(name).map((process) => [name, process.pid] as const)),
    ...lab.nats.servers.map(({ pid }) => ['nats-server', pid] as const),
    ['kube-apiserver', lab.api.pid] as const,
  ];
  return Promise.all(processes.map(([name, pid]) => holdingsOf(name, pid)));
}

async function judge(
  lab: RealLab,
  tunnels: number,
): Promise<{ readonly verdict: RunVerdict; readonly improper: readonly string[] }> {
  const { history } = await lab.sources();
  const observations = (await readAll(history, 'OBSERVATIONS')).map(({ headers, data }) => ({
    id: headers['ce-id'] ?? '',
    event: parsed<TunnelEvent>(data),
  }));
  const decisions = (await readAll(history, 'DECISIONS')).map(({ data }) => parsed<Decision>(data));
  const writes = await connectionWrites(lab.api.auditLogFile ?? '');
  return {
    verdict: judgeRun(observations, writes, decisions),
    improper: improperWrites(
      writes,
      Array.from({ length: tunnels }, (_, index) => interfaceIdOf(index)),
    ),
  };
}

async function readAll(history: EventHistory, stream: StreamName): Promise<StoredMessage[]> {
  const all: StoredMessage[] = [];
  const signal = AbortSignal.timeout(CALM_LIMIT_MS);
  for await (const batch of history.read({ stream, from: { sequence: 1 } }, signal)) all.push(...batch);
  signal.throwIfAborted(); // a part of the history would demand less
  return all;
}

function parsed<Data>(data: Uint8Array): Data {
  return JSON.parse(Buffer.from(data).toString('utf8')) as Data;
}
