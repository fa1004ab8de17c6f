import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { openRecording } from '../../shared/adapters/recording-file.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { runCommandLine } from '../../shared/cli/dispatch.ts';
import { startGateway } from '../../shared/cli/gateway-run.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import { type RecordedMessage, recordedMessage } from '../../shared/domain/recorded-message.ts';
import { describeReal } from '../support/real-parts.ts';
import { workspace } from '../support/recorded-world.ts';
import { replayOf } from '../support/replay-of.ts';
import { silentLogger } from '../support/silent-logger.ts';

const LOCAL = '127.0.71.1';
const PEER = '127.0.71.2';
const PORT = 27_145;
const SETTINGS = { ...DEFAULT_PING_SETTINGS, port: PORT, intervalMs: 100, lossThreshold: 4 };
const NO_METER = { count() {}, gauge() {}, observe() {}, remove() {} };

function gatewayOn(broker: EmbeddedBroker, name: string, local: string, peer: string) {
  return startGateway(
    {
      ...{ namespace: 'ns', name, mode: 'server', remoteClusterId: 'there', runId: `run-${name}` },
      tunnels: [
        { interfaceId: 'liqo-tunnel', local: { address: local, port: PORT }, peer: { address: peer, port: PORT } },
      ],
      settings: SETTINGS,
    },
    { bus: new EmbeddedBus(broker, systemClock), clock: systemClock, meter: NO_METER, log: silentLogger },
  );
}

async function observationsOf(broker: EmbeddedBroker, name: string): Promise<Observation[]> {
  const found: Observation[] = [];
  const query = { stream: 'OBSERVATIONS', filter: `observations.*.ns.gw-${name}.*`, from: { sequence: 1 } } as const;
  for await (const batch of new EmbeddedHistory(broker).read(query, new AbortController().signal)) {
    for (const message of batch.map(recordedMessage))
      if (isObservation(message)) found.push(message.event?.data as Observation);
  }
  return found;
}

function isObservation({ event }: RecordedMessage): boolean {
  return typeof (event?.data as { readonly sequence?: unknown } | undefined)?.sequence === 'number';
}

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = systemClock.monotonicMs() + 30_000;
  while (!(await condition())) {
    if (systemClock.monotonicMs() > deadlineMs) throw new Error(`${what}: not within 30 s`);
    await systemClock.sleep(20);
  }
}

/** What the kernel holds comes to the file a little later. */
async function unchanging(path: string): Promise<void> {
  for (let size = -1, now = 0; size !== now; ) {
    size = now;
    await systemClock.sleep(300);
    now = (await stat(path)).size;
  }
}

const changesOf = (observations: readonly Observation[]) =>
  observations.map(({ value }) => value).filter((value, at, all) => value !== all[at - 1]);

await describeReal('import of captures that tcpdump wrote', ['root', 'tcpdump'], () => {
  it.each([
    ['Ethernet', ['-i', 'lo']],
    // On loopback "any" sees each packet twice, out and in: copies count for nothing.
    ['Linux cooked, version 1', ['-i', 'any', '-y', 'LINUX_SLL']],
    ['Linux cooked, version 2, nanoseconds', ['-i', 'any', '-y', 'LINUX_SLL2', '--time-stamp-precision=nano']],
  ])('gives the verdicts that the gateway gave: %s', async (_name, args) => {
    await using space = await workspace();
    const capture = space.path('capture.pcap');
    const filter = `udp port ${PORT} and net 127.0.71.0/24`;
    const tcpdump = spawn('tcpdump', [...args, '--immediate-mode', '-U', '-n', '-w', capture, filter], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    try {
      await once(tcpdump.stderr, 'data');
      await until(async () => (await stat(capture).catch(() => undefined)) !== undefined, 'tcpdump writes');

      const broker = new EmbeddedBroker({ clock: systemClock });
      const here = gatewayOn(broker, 'here', LOCAL, PEER);
      let there = gatewayOn(broker, 'there', PEER, LOCAL);
      const sees = (value: string, count: number) =>
        until(
          async () => changesOf(await observationsOf(broker, 'here')).filter((one) => one === value).length >= count,
          `${value} ${count}`,
        );
      await sees('Connected', 1);
      await there.stop();
      await sees('Error', 1);
      there = gatewayOn(broker, 'there2', PEER, LOCAL);
      await sees('Connected', 2);
      await here.stop();
      await there.stop();
      await unchanging(capture);
      tcpdump.kill('SIGINT');
      await once(tcpdump, 'exit');

      const own = await observationsOf(broker, 'here');
      const output = space.path('imported');
      const flags = ['--ping-port', String(PORT), '--ping-interval', '100ms', '--ping-loss-threshold', '4'];
      const code = await runCommandLine(
        ['import', '--pcap', capture, '--output', output, '--local', LOCAL, ...flags],
        {},
      );
      expect(code).toBe(0);
      const recorded: RecordedMessage[] = [];
      for await (const batch of (await openRecording(output)).messages('OBSERVATIONS')) {
        recorded.push(...batch);
      }
      const imported = recorded.filter(isObservation).map(({ event }) => event?.data as Observation);
      expect(changesOf(imported)).toEqual(changesOf(own));
      expect(changesOf(own).slice(-3)).toEqual(['Connected', 'Error', 'Connected']);
      const pongs = (all: readonly Observation[]) => all.filter(({ kind }) => kind === 'pong').length;
      expect(pongs(imported)).toBe(pongs(own));
      for (const { rttNs } of imported) if (rttNs !== undefined) expect(rttNs).toBeGreaterThan(0);
      const { summary } = await replayOf(recorded);
      expect(summary).toMatchObject({
        missing: 0,
        connections: [{ name: 'gw-capture', status: { value: 'Connected' } }],
      });
    } finally {
      tcpdump.kill('SIGKILL');
    }
  });
});
