/**
 * The gateway under measurement, in a process of its own: `node subject-process.ts CONFIG`. The engine in its thread as
 * in production; with `natsUrl` the whole gateway, without it the ping path alone.
 */
import { writeFileSync } from 'node:fs';
import { engineThread } from '../../../shared/adapters/engine-thread.ts';
import { NatsBus } from '../../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../../shared/adapters/nats-setup.ts';
import { PrometheusMeter } from '../../../shared/adapters/prometheus-meter.ts';
import { systemClock } from '../../../shared/adapters/system-clock.ts';
import { engineEntry } from '../../../shared/cli/engine-entry.ts';
import { startGateway } from '../../../shared/cli/gateway-run.ts';
import { DEFAULT_PING_SETTINGS } from '../../../shared/domain/ping-settings.ts';
import type { Sighting } from '../../../shared/domain/sighting.ts';
import { derivedTunnel, endpointOf } from '../../../shared/domain/tunnel-interface.ts';
import { SETUP_FOR_TESTS } from '../../support/nats-harness.ts';
import { silentLogger } from '../../support/silent-logger.ts';

export type SubjectConfig = {
  readonly tunnels: number;
  readonly intervalMs: number;
  readonly lossThreshold: number;
  /** Share of its time, 0 to 1, that the main thread spends on something else. */
  readonly busyShare?: number;
  /** File that gets all round trips as measured. */
  readonly rttFile?: string;
  readonly natsUrl?: string;
};

/** What it says at its end. */
export type SubjectReport = {
  readonly received: number;
  readonly transitions: readonly { readonly value: string; readonly atUnixMs: number }[];
  /** How late after their instants deadlines were judged. */
  readonly deviationsMs: readonly number[];
};

const BUSY_PERIOD_MS = 10;
const { tunnels: count, busyShare = 0, rttFile, natsUrl, ...ping } = JSON.parse(process.argv[2] ?? '') as SubjectConfig;
const settings = { ...DEFAULT_PING_SETTINGS, ...ping };
const tunnels = Array.from({ length: count }, (_, index) => endpointOf(derivedTunnel(index, 'server'), settings.port));

let received = 0;
const measured: Pick<Sighting, 'interfaceId' | 'rttNs' | 'minRttNs'>[] = [];
const values = new Map<string, string>();
const transitions: SubjectReport['transitions'][number][] = [];
const deviationsMs: number[] = [];
const take = ({ kind, interfaceId, value, observedAtUnixMs, rttNs, minRttNs }: Sighting) => {
  if (values.get(interfaceId) !== value) transitions.push({ value, atUnixMs: observedAtUnixMs });
  values.set(interfaceId, value);
  if (kind !== 'pong') return;
  received += 1;
  if (rttFile !== undefined) measured.push({ interfaceId, rttNs, minRttNs } as (typeof measured)[0]);
};

const subject = natsUrl === undefined ? startEngineAlone() : await startWholeGateway(natsUrl);

function startEngineAlone() {
  const start = engineThread(engineEntry());
  return start({ tunnels, settings, sender: '0a1b2c3d', batchMs: 50 }, (report) => {
    for (const sighting of report.sightings) take(sighting);
    for (const tunnel of report.snapshot?.tunnels ?? []) deviationsMs.push(...tunnel.deadlineDeviationsMs);
  });
}

async function startWholeGateway(server: string) {
  const bus = NatsBus.open({ servers: [server], name: 'bench' }, systemClock, silentLogger);
  await bus.link.whenUp();
  await setupBus(bus.link.connection, SETUP_FOR_TESTS());
  const run = { namespace: 'bench', name: 'bench', remoteClusterId: 'far', runId: `bench-${process.pid}` };
  const ports = { bus, clock: systemClock, meter: new PrometheusMeter(), log: silentLogger };
  const gateway = startGateway({ ...run, mode: 'server', tunnels, settings }, ports);
  const poll = setInterval(() => {
    received = gateway.tunnels().reduce((sum, { pongsReceived }) => sum + pongsReceived, 0);
  }, 100);
  return {
    stop: async () => {
      clearInterval(poll);
      await gateway.stop(1_000);
      await bus.close();
    },
  };
}

const busy =
  busyShare > 0 &&
  setInterval(() => {
    const endMs = performance.now() + busyShare * BUSY_PERIOD_MS;
    while (performance.now() < endMs);
  }, BUSY_PERIOD_MS);

process.on('SIGUSR2', () => process.stdout.write(`${JSON.stringify({ received })}\n`));
process.once('SIGTERM', async () => {
  if (busy) clearInterval(busy);
  await subject.stop();
  if (rttFile !== undefined) writeFileSync(rttFile, JSON.stringify(measured));
  process.stdout.write(`${JSON.stringify({ received, transitions, deviationsMs } satisfies SubjectReport)}\n`);
});
process.stderr.write('ready\n');
