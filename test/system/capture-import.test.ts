import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startWireguardNetwork, type WireguardNetwork } from '../../infra/lab/wireguard-network.ts';
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
import { derivedTunnel, endpointOf, type GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { eventually } from '../support/eventually.ts';
import { GatewayProcess, gatewayOptions } from '../support/loopback.ts';
import { describeReal } from '../support/real-parts.ts';
import { type Workspace, workspace } from '../support/recorded-world.ts';
import { replayOf } from '../support/replay-of.ts';
import { silentLogger } from '../support/silent-logger.ts';

const run = promisify(execFile);
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

/** tcpdump once it captures. */
async function listening(tcpdump: ChildProcess, capture: string): Promise<void> {
  await once(tcpdump.stderr as NodeJS.ReadableStream, 'data');
  await until(async () => (await stat(capture).catch(() => undefined)) !== undefined, 'tcpdump writes');
}

/** Stops it when all that the kernel holds is in the file. */
async function ended(tcpdump: ChildProcess, capture: string): Promise<void> {
  await unchanging(capture);
  tcpdump.kill('SIGINT');
  await once(tcpdump, 'exit');
}

/** Imports as the command does, and reads what it wrote. */
async function imported(capture: string, output: string, flags: readonly string[]): Promise<RecordedMessage[]> {
  expect(await runCommandLine(['import', '--pcap', capture, '--output', output, ...flags], {})).toBe(0);
  const recorded: RecordedMessage[] = [];
  for await (const batch of (await openRecording(output)).messages('OBSERVATIONS')) recorded.push(...batch);
  return recorded;
}

/** What comes before is of two processes that start, not at once, on a machine that may be busy. */
const sinceConnected = (changes: readonly string[]) => changes.slice(changes.indexOf('Connected'));

/** The capture says what the gateway said from its first PONG on, until it was stopped: the wire goes on. */
function expectSame(recorded: readonly RecordedMessage[], own: readonly Observation[]): void {
  const stoppedAt = own.at(-1)?.observedAt ?? '';
  const observations = recorded
    .filter(isObservation)
    .map(({ event }) => event?.data as Observation)
    .filter(({ observedAt }) => observedAt <= stoppedAt);
  expect(sinceConnected(changesOf(observations))).toEqual(sinceConnected(changesOf(own)));
  expect(changesOf(own).slice(-3)).toEqual(['Connected', 'Error', 'Connected']);
  const pongs = (all: readonly Observation[]) => all.filter(({ kind }) => kind === 'pong').length;
  // What came while the gateway was stopped is on the wire, and in none of its observations.
  expect([pongs(own), pongs(own) + 1]).toContain(pongs(observations));
  for (const { rttNs } of observations) if (rttNs !== undefined) expect(rttNs).toBeGreaterThan(0);
}

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
      await listening(tcpdump, capture);
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
      await ended(tcpdump, capture);

      const flags = ['--ping-port', String(PORT), '--ping-interval', '100ms', '--ping-loss-threshold', '4'];
      const recorded = await imported(capture, space.path('imported'), ['--local', LOCAL, ...flags]);
      expectSame(recorded, await observationsOf(broker, 'here'));
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

/** The header's link type, by its number: https://www.tcpdump.org/linktypes.html */
const LINKTYPE_RAW = 101;
const PCAPNG_MAGIC = '0a0d0d0a';

await describeReal(
  'import of a capture on a WireGuard interface',
  ['root', 'netns', 'tun', 'wireguard-go', 'nft', 'tcpdump', 'editcap'],
  () => {
    let space: Workspace;
    let network: WireguardNetwork;
    let own: readonly Observation[];
    const settings = { intervalMs: 100, lossThreshold: 5 };
    const flags = ['--ping-interval', '100ms', '--ping-loss-threshold', '5'];
    const path = () => space.path('tunnel.pcap');

    beforeAll(async () => {
      space = await workspace();
      network = await startWireguardNetwork({ tunnels: 1, logFolder: space.path('.') });
      const { command, args } = network.commandLine('server', 'tcpdump', [
        ...['-i', 'liqo-tunnel', '--immediate-mode', '-U', '-n', '-w', path(), 'udp', 'port', '12345'],
      ]);
      const tcpdump = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
      const start = (side: GatewayMode) =>
        new GatewayProcess(gatewayOptions([endpointOf(derivedTunnel(0, side), 12_345)], settings), (name, rest) =>
          network.commandLine(side, name, rest),
        );
      await listening(tcpdump, path());
      const [here, there] = [start('server'), start('client')];
      try {
        const sees = (value: string) => eventually(() => here.last()?.value === value, value, 60_000);
        await sees('Connected');
        await network.cut('liqo-tunnel');
        await sees('Error');
        await network.restore('liqo-tunnel');
        await sees('Connected');
        await here.stop();
        own = here.of(0);
        await there.stop(); // its PINGs would go on filling the file
        await ended(tcpdump, path());
      } finally {
        for (const gateway of [here, there]) await gateway.stop();
        tcpdump.kill('SIGKILL');
      }
    });
    afterAll(async () => {
      await network[Symbol.asyncDispose]();
      await space[Symbol.asyncDispose]();
    });

    it('reads raw IP', async () => {
      expect((await readFile(path())).readUInt32LE(20)).toBe(LINKTYPE_RAW);
      expectSame(await imported(path(), space.path('raw'), ['--local', '169.254.18.1', ...flags]), own);
    });

    it('reads it as pcapng, and says the same', async () => {
      const converted = space.path('tunnel.pcapng');
      await run('editcap', ['-F', 'pcapng', path(), converted]);
      expect((await readFile(converted)).toString('hex', 0, 4)).toBe(PCAPNG_MAGIC);
      const local = ['--local', '169.254.18.1', ...flags];
      const recorded = await imported(converted, space.path('pcapng'), local);
      expectSame(recorded, own);
      expect(recorded).toEqual(await imported(path(), space.path('again'), local));
    });
  },
);
