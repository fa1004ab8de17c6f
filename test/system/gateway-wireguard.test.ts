import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startWireguardNetwork, type WireguardNetwork } from '../../infra/lab/wireguard-network.ts';
import { derivedTunnel, endpointOf, type GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { eventually } from '../support/eventually.ts';
import { GatewayProcess, gatewayOptions } from '../support/loopback.ts';
import { describeReal } from '../support/real-parts.ts';

const SETTINGS = { intervalMs: 100, lossThreshold: 5 };
const SEND_ERRORS = 'wg_keepalive_send_errors_total';

await describeReal('gateways over WireGuard', ['root', 'netns', 'tun', 'wireguard-go', 'nft'], () => {
  let folder: string;
  let network: WireguardNetwork;
  const gateways: GatewayProcess[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-gateway-'));
    network = await startWireguardNetwork({ tunnels: 3, logFolder: folder });
  });
  afterEach(async () => {
    for (const gateway of gateways.splice(0)) {
      expect({ code: await gateway.stop(), stderr: gateway.stderr.join('') }).toEqual({ code: 0, stderr: '' });
    }
  });
  afterAll(async () => {
    await network[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  function start(side: GatewayMode, tunnels = 3): GatewayProcess {
    const port = 12_345;
    const endpoints = Array.from({ length: tunnels }, (_, index) => endpointOf(derivedTunnel(index, side), port));
    const gateway = new GatewayProcess(gatewayOptions(endpoints, SETTINGS), (command, args) =>
      network.commandLine(side, command, args),
    );
    gateways.push(gateway);
    return gateway;
  }

  async function startBoth(tunnels = 3): Promise<GatewayProcess> {
    const here = start('server', tunnels);
    start('client', tunnels);
    await becomes(here, [0, 1, 2], 'Connected');
    return here;
  }

  async function becomes(gateway: GatewayProcess, indexes: readonly number[], value: string): Promise<void> {
    await eventually(() => indexes.every((index) => gateway.last(index)?.value === value), `${value} of ${indexes}`);
  }

  const onServer = (command: string, ...args: string[]) => network.exec('server', command, args);
  const errorsOf = (gateway: GatewayProcess, index: number) =>
    gateway.of(index).filter(({ value }) => value === 'Error').length;

  test('a route that forbids it from the start: never Connected, no latency, errors counted (C7)', async () => {
    await onServer('ip', 'route', 'add', 'prohibit', '169.254.18.6/32');
    try {
      const here = start('server');
      start('client');
      await becomes(here, [0, 2], 'Connected');
      await becomes(here, [1], 'Error');
      await eventually(() => here.count(SEND_ERRORS, 'EACCES') >= 10, 'counted refusals');
      expect(here.of(1).filter(({ value, rttNs }) => value === 'Connected' || rttNs !== undefined)).toEqual([]);
      expect(here.last(1)).toMatchObject({ reason: 'NeverAnswered' });
      expect(here.last(1)?.message).toContain('EACCES');
    } finally {
      await onServer('ip', 'route', 'del', 'prohibit', '169.254.18.6/32');
    }
    await becomes(gateways[0] as GatewayProcess, [1], 'Connected');
  });

  test('a silent drop: Error and no latency for that tunnel alone, and nothing of it after the recovery (C8, C9)', async () => {
    const here = await startBoth();
    await network.cut('liqo-tunnel1');
    await becomes(here, [1], 'Error');
    expect(here.last(1)).toMatchObject({ reason: 'Lost' });
    expect(here.last(1)?.rttNs).toBeUndefined();
    await network.restore('liqo-tunnel1');
    await becomes(here, [1], 'Connected');
    await eventually(() => here.last(1)?.kind === 'pong', 'a PONG');
    expect(here.last(1)?.reason).toBeUndefined();
    expect([errorsOf(here, 0), errorsOf(here, 2)]).toEqual([0, 0]);
  });

  const faults = {
    EPERM: {
      make: () => network.cutInside('liqo-tunnel1'),
      undo: () => network.restore('liqo-tunnel1'),
    },
    EACCES: {
      make: () => onServer('ip', 'route', 'add', 'prohibit', '169.254.18.6/32'),
      undo: () => onServer('ip', 'route', 'del', 'prohibit', '169.254.18.6/32'),
    },
    ENETUNREACH: {
      make: () => onServer('ip', 'route', 'del', '169.254.18.4/30', 'dev', 'liqo-tunnel1'),
      undo: () =>
        onServer(
          'ip',
          'route',
          'add',
          '169.254.18.4/30',
          'dev',
          'liqo-tunnel1',
          'src',
          '169.254.18.5',
          'scope',
          'link',
        ),
    },
  };
  test('sends that the kernel refuses in turn: counted by code, no exit, and it goes on by itself (C27)', async () => {
    const here = await startBoth();
    for (const [code, { make, undo }] of Object.entries(faults)) {
      await make();
      await becomes(here, [1], 'Error');
      expect(here.last(1)).toMatchObject({ reason: `SendFailed:${code}` });
      await eventually(() => here.count(SEND_ERRORS, code) >= 5, `counted ${code}`);
      await undo();
      await becomes(here, [1], 'Connected');
    }
    expect([errorsOf(here, 0), errorsOf(here, 2)]).toEqual([0, 0]);
    expect(here.child.exitCode).toBeNull();
  });

  test('an interface that vanishes and comes back under its name and address, and one that comes late', async () => {
    await network.scale(2);
    const here = start('server');
    start('client');
    await becomes(here, [0, 1], 'Connected');
    await becomes(here, [2], 'Error');
    expect(here.last(2)?.message).toContain('EADDRNOTAVAIL');
    await network.addTunnel(2);
    await becomes(here, [2], 'Connected');

    for (let round = 0; round < 3; round++) {
      const before = await onServer('cat', '/sys/class/net/liqo-tunnel1/ifindex');
      await network.removeTunnel('liqo-tunnel1');
      await becomes(here, [1], 'Error');
      await network.addTunnel(1);
      await becomes(here, [1], 'Connected');
      expect(await onServer('cat', '/sys/class/net/liqo-tunnel1/ifindex')).not.toBe(before);
    }
    expect([errorsOf(here, 0)]).toEqual([0]);
  });

  test('an address that is taken away and given back', async () => {
    const here = await startBoth();
    await onServer('ip', 'address', 'flush', 'dev', 'liqo-tunnel1');
    await becomes(here, [1], 'Error');
    await onServer('ip', 'address', 'add', '169.254.18.5/30', 'dev', 'liqo-tunnel1');
    await becomes(here, [1], 'Connected');
    expect([errorsOf(here, 0), errorsOf(here, 2)]).toEqual([0, 0]);
  });

  test('somebody else on the ping port: named as such, and the port is taken once it is free', async () => {
    const squatter = `require('dgram').createSocket('udp4').bind(12345, '0.0.0.0', () => console.log('bound'))`;
    const { command, args } = network.commandLine('server', process.execPath, ['-e', squatter]);
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    const here = start('server');
    start('client');
    await eventually(() => here.count(SEND_ERRORS, 'EADDRINUSE') > 3, 'counted EADDRINUSE');
    expect(here.last(0)?.message).toContain('--enable-connection-controller=false');
    child.kill();
    await becomes(here, [0, 1, 2], 'Connected');
  });

  test('asks no name server for anything (C29)', async () => {
    const rules =
      'table inet dns {\n chain out {\n type filter hook output priority 0\n th dport 53 counter drop\n }\n }';
    await network.exec('server', 'nft', ['-f', '-'], rules);
    const here = await startBoth();
    await eventually(() => here.of(0).length >= 30, '30 observations');
    expect(await onServer('nft', 'list', 'table', 'inet', 'dns')).toContain('counter packets 0 bytes 0');
    await onServer('nft', 'delete', 'table', 'inet', 'dns');
  });

  test('counts the bytes of its interfaces', async () => {
    const here = await startBoth();
    await eventually(() => here.count('liqo_peer_transmit_bytes_total') > 1_000, 'transmitted bytes');
    expect(here.count('liqo_peer_receive_bytes_total')).toBeGreaterThan(1_000);
  });
});
