import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type Gateway, startGateway } from '../../shared/cli/gateway-run.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import { CountingMeter } from '../support/counting-meter.ts';
import { eventually } from '../support/eventually.ts';
import { gatewayOptions, loopbackTunnel } from '../support/loopback.ts';
import { type NatsHarness, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { UdpPeer } from '../support/udp-peer.ts';

const PORT = 24_513;
const TUNNELS = [loopbackTunnel(0, PORT), loopbackTunnel(1, PORT)];
const SETTINGS = { intervalMs: 50, lossThreshold: 4 };
const FAILURES = 'wg_keepalive_publish_failures_total';

await describeReal('a gateway and NATS', ['nats-server'], () => {
  let nats: NatsHarness;
  let bus: NatsBus;
  let meter: CountingMeter;
  const gateways: Gateway[] = [];
  const peers: UdpPeer[] = [];

  beforeEach(async () => {
    nats = await startNatsHarness();
    bus = nats.open();
    meter = new CountingMeter();
    for (const { peer } of TUNNELS) peers.push(await UdpPeer.start(peer));
  });
  afterEach(async () => {
    for (const gateway of gateways.splice(0)) await gateway.stop(0);
    for (const peer of peers.splice(0)) peer.close();
    await nats[Symbol.asyncDispose]();
  });

  function start(runId: string): Gateway {
    const options = { ...gatewayOptions(TUNNELS, SETTINGS), runId };
    const gateway = startGateway(options, { bus, clock: systemClock, meter, log: silentLogger });
    gateways.push(gateway);
    return gateway;
  }

  /** Everything that the stream holds, in its order. */
  async function stored(): Promise<Observation[]> {
    const manager = await jetstreamManager((await nats.connect()).link.connection, { checkAPI: false });
    const { state } = await manager.streams.info('OBSERVATIONS');
    const observations: Observation[] = [];
    for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
      observations.push((await manager.streams.getMessage('OBSERVATIONS', { seq }))?.json() as Observation);
    }
    return observations;
  }

  test('NATS away at the start and again later: every sighting arrives once, in order, with one epoch', async () => {
    await nats.server.stop();
    const gateway = start('run1');
    await eventually(() => peers.every(({ pings }) => pings >= 10), 'PINGs without NATS');
    expect(gateway.epoch()).toBeUndefined();
    await nats.server.restart();
    await eventually(() => gateway.epoch() !== undefined, 'the epoch');

    await nats.server.kill();
    for (let round = 0; round < 3; round++) {
      for (const isDeaf of [true, false]) {
        (peers[1] as UdpPeer).isDeaf = isDeaf;
        const value = isDeaf ? 'Error' : 'Connected';
        await eventually(() => gateway.tunnels()[1]?.value === value, `${value} while NATS is away`);
      }
    }
    await nats.server.restart();
    await gateway.stop(10_000).then(({ unsent }) => expect(unsent).toBe(0));
    const observations = await stored();
    expect(new Set(observations.map(({ gatewayEpoch }) => gatewayEpoch))).toEqual(new Set([gateway.epoch()]));
    for (const { interfaceId } of TUNNELS) {
      const sequences = observations.filter((one) => one.interfaceId === interfaceId).map(({ sequence }) => sequence);
      expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    }
    const values = observations.filter((one) => one.interfaceId === 'liqo-tunnel1').map(({ value }) => value);
    const transitions = values.filter((value, index) => value !== (values[index - 1] ?? 'Connecting'));
    expect(transitions.length).toBe(gateway.tunnels()[1]?.transitions);
    expect(transitions.filter((value) => value === 'Error').length).toBeGreaterThanOrEqual(3);
  });

  test('the run that starts later has the higher epoch', async () => {
    const first = start('run1');
    await eventually(() => first.epoch() !== undefined, 'the first epoch');
    await first.stop();
    const second = start('run2');
    await eventually(() => second.epoch() !== undefined, 'the second epoch');
    expect(second.epoch()).toBeGreaterThan(first.epoch() as number);
  });

  test('a full stream: refusals are counted, PINGs go on, and it flows again once there is room (C25)', async () => {
    const manager = await jetstreamManager((await nats.connect()).link.connection, { checkAPI: false });
    const { config } = await manager.streams.info('OBSERVATIONS');
    await manager.streams.update('OBSERVATIONS', { ...config, max_msgs: 100, discard: 'new' } as typeof config);
    const gateway = start('run1');
    await eventually(() => meter.of(FAILURES, 'full') >= 3, 'refusals, counted');
    const before = peers[0]?.pings ?? 0;
    const beginMs = performance.now();
    await eventually(() => (peers[0]?.pings ?? 0) >= before + 40, 'PINGs meanwhile');
    const intervals = (performance.now() - beginMs) / SETTINGS.intervalMs;
    expect(Math.abs(intervals - 40)).toBeLessThanOrEqual(20); // the machine's mood; a gateway that waits would be at 0
    expect(gateway.tunnels().map(({ value }) => value)).toEqual(['Connected', 'Connected']);
    const last = (await manager.streams.info('OBSERVATIONS')).state.last_seq;
    await manager.streams.purge('OBSERVATIONS');
    await eventually(
      async () => (await manager.streams.info('OBSERVATIONS')).state.last_seq > last + 20,
      'observations after the purge',
      5_000,
    );
  });

  test('told to end without NATS: in time, says what it could not send, exit code 1 (C24)', async () => {
    await nats.server.stop();
    const main = join(import.meta.dirname, '../../shared/cli/main.ts');
    const tunnel = TUNNELS.map(
      ({ interfaceId, local, peer }) => `--tunnel=${interfaceId}=${local.address},${peer.address}`,
    );
    const flags = ['--namespace=ns', '--name=rome', '--mode=server', '--remote-cluster-id=rome', ...tunnel];
    const ping = [`--ping-port=${PORT}`, '--ping-interval=50ms', '--ping-loss-threshold=4'];
    const rest = [`--nats-url=${nats.server.url}`, '--metrics-bind-address=127.0.0.1:24514'];
    const child = spawn(process.execPath, [main, 'gateway', ...flags, ...ping, ...rest]);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
    const before = peers[0]?.pings ?? 0;
    await eventually(() => (peers[0]?.pings ?? 0) >= before + 20, 'PINGs of the command');
    const exit = once(child, 'exit');
    const toldMs = performance.now();
    child.kill('SIGTERM');
    expect(await exit).toEqual([1, null]);
    expect(performance.now() - toldMs).toBeLessThan(10_000);
    expect(output).toMatch(/"unsent":\d+.*stopped with observations that the bus did not take/);
  });
});
