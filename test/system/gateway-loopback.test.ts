import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, describe, expect, test } from 'vitest';
import { tunnelEventSchema } from '../../shared/domain/observation.ts';
import type { TunnelEndpoint } from '../../shared/domain/tunnel-interface.ts';
import { eventually } from '../support/eventually.ts';
import { GatewayProcess, gatewayOptions, loopbackTunnel } from '../support/loopback.ts';
import { describeReal } from '../support/real-parts.ts';
import { UdpPeer } from '../support/udp-peer.ts';

const PORT = 24_511;
const FAST = { intervalMs: 50, lossThreshold: 3 };
const tunnelsOf = (count: number) => Array.from({ length: count }, (_, index) => loopbackTunnel(index, PORT));
const mirror = ({ interfaceId, local, peer }: TunnelEndpoint) => ({ interfaceId, local: peer, peer: local });

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const task of cleanUp.splice(0).reverse()) await task();
});

function start(...args: ConstructorParameters<typeof GatewayProcess>): GatewayProcess {
  const gateway = new GatewayProcess(...args);
  cleanUp.push(async () => {
    const code = await gateway.stop();
    expect({ code, stderr: gateway.stderr.join('') }).toEqual({ code: 0, stderr: '' });
  });
  return gateway;
}

/** A peer of one tunnel. */
async function startPeer(tunnel: TunnelEndpoint, answer?: Parameters<typeof UdpPeer.start>[1]): Promise<UdpPeer> {
  const peer = await UdpPeer.start(tunnel.peer, answer);
  cleanUp.push(() => peer.close());
  return peer;
}

const pongsOf = (gateway: GatewayProcess, index: number) => gateway.of(index).filter(({ kind }) => kind === 'pong');

describe('two gateways, each in a process of its own', () => {
  test('measure four tunnels; every observation is what the schema says; the end is clean', async () => {
    const tunnels = tunnelsOf(4);
    const here = start(gatewayOptions(tunnels, FAST));
    const there = start(gatewayOptions(tunnels.map(mirror), FAST));
    for (const gateway of [here, there]) {
      for (const index of [0, 1, 2, 3]) {
        await eventually(() => pongsOf(gateway, index).length >= 20, `20 PONGs of tunnel ${index}`);
        expect(gateway.last(index)?.value).toBe('Connected');
      }
    }
    const ajv = new Ajv2020({ discriminator: true, strict: false });
    const validate = ajv.compile(tunnelEventSchema);
    for (const observation of [...here.observations, ...there.observations]) {
      expect(validate(observation), JSON.stringify([observation, validate.errors])).toBe(true);
    }
    for (const index of [0, 1, 2, 3]) {
      expect(here.of(index).map(({ sequence }) => sequence)).toEqual(here.of(index).map((_, at) => at + 1));
    }
    await there.stop();
    await eventually(() => [0, 1, 2, 3].every((index) => here.last(index)?.value === 'Error'), 'Error of all tunnels');
    expect(await here.stop()).toBe(0);
    expect(here.unsent).toBe(0);
  });
});

describe('a stub peer', () => {
  test('that delays, doubles and reorders: one observation a PING, none of a duplicate', async () => {
    let held: Uint8Array | undefined;
    let count = 0;
    const { pingStamps } = await startPeer(loopbackTunnel(0, PORT), (pong, send) => {
      count += 1;
      const copies = () => {
        for (let copy = 0; copy < 3; copy++) send(pong);
      };
      if (count % 10 === 5) {
        held = pong; // answered after the next one, hence never counted
      } else {
        setTimeout(copies, 20);
        if (held !== undefined) setTimeout(send, 25, held);
        held = undefined;
      }
    });
    const gateway = start(gatewayOptions(tunnelsOf(1), { intervalMs: 100, lossThreshold: 5 }));
    await eventually(() => pongsOf(gateway, 0).length >= 40, '40 PONGs');
    for (const { rttNs, value } of pongsOf(gateway, 0)) {
      expect(rttNs).toBeGreaterThanOrEqual(19_000_000);
      expect(value).toBe('Connected');
    }
    expect(gateway.of(0).length).toBeLessThanOrEqual(pingStamps.size);
    const dropped = (reason: string) => gateway.count('wg_keepalive_packets_dropped_total', reason);
    await eventually(() => dropped('late') + dropped('reordered') >= 3, 'PONGs out of order, counted');
    await eventually(() => dropped('duplicate') > 40, 'duplicates, counted');
  });

  test('whose port closes is counted and recovers; the other tunnels keep their cadence (C26)', async () => {
    const tunnels = tunnelsOf(3);
    const peers = [];
    for (const tunnel of tunnels) peers.push(await startPeer(tunnel));
    const gateway = start(gatewayOptions(tunnels, FAST));
    await eventually(() => [0, 1, 2].every((index) => gateway.last(index)?.value === 'Connected'), 'all Connected');
    peers[1]?.close();
    await eventually(() => gateway.last(1)?.value === 'Error', 'Error of the closed one');
    expect(gateway.last(1)?.reason).toBe('SendFailed:ECONNREFUSED');
    await eventually(() => gateway.count('wg_keepalive_send_errors_total', 'ECONNREFUSED') > 5, 'counted refusals');
    await startPeer(tunnels[1] as TunnelEndpoint);
    await eventually(() => gateway.last(1)?.value === 'Connected', 'recovery', 4_000);
    for (const index of [0, 2]) {
      expect(gateway.of(index).filter(({ value }) => value === 'Error')).toEqual([]);
    }
    expect(gateway.child.exitCode).toBeNull();
  });

  test('gets at most one answer to a PING, none to a PONG; strangers get none (C5)', async () => {
    const tunnel = loopbackTunnel(0, PORT);
    const { socket, strays } = await startPeer(tunnel);
    const { socket: stranger, strays: answersToStranger } = await startPeer({
      ...tunnel,
      peer: { address: '127.3.0.1', port: PORT },
    });
    const gateway = start(gatewayOptions([tunnel], { intervalMs: 500 }));
    await eventually(() => gateway.last(0)?.value === 'Connected', 'Connected');
    const bytes = (msgType: string) => `{"clusterID":"x","msgType":"${msgType}","timeStamp":"2026-01-02T03:04:05.5Z"}`;
    for (const from of [socket, stranger]) {
      for (const msgType of ['PING', 'PING', 'PONG', 'PONG']) {
        from.send(bytes(msgType), tunnel.local.port, tunnel.local.address);
      }
    }
    const dropped = (reason: string) => gateway.count('wg_keepalive_packets_dropped_total', reason);
    await eventually(() => dropped('wrong-source') === 4, 'the stranger’s datagrams, counted');
    await eventually(() => dropped('foreign-pong') === 2 && dropped('repeated-ping') === 1, 'the peer’s, counted');
    expect(strays.map((reply) => new TextDecoder().decode(reply))).toEqual([bytes('PONG')]);
    expect(answersToStranger).toEqual([]);
  });

  test('that floods with junk (20,000 a second) keeps no tunnel from being measured, and gets no answer', async () => {
    const tunnels = tunnelsOf(2);
    const flooded = await startPeer(tunnels[0] as TunnelEndpoint);
    await startPeer(tunnels[1] as TunnelEndpoint);
    const gateway = start(gatewayOptions(tunnels, { intervalMs: 100, lossThreshold: 10 }));
    await eventually(() => [0, 1].every((index) => gateway.last(index)?.value === 'Connected'), 'all Connected');
    const { address, port } = (tunnels[0] as TunnelEndpoint).local;
    const junk = ['{', 'x'.repeat(900), '{"clusterID":"a","msgType":"PONG","timeStamp":"2026-01-02T03:04:05Z"}', ''];
    let sent = 0;
    const flood = setInterval(() => {
      for (let i = 0; i < 40; i++) flooded.socket.send(junk[sent++ % 4] ?? '', port, address);
    }, 2);
    cleanUp.push(() => clearInterval(flood));
    const dropped = (reason: string) => gateway.count('wg_keepalive_packets_dropped_total', reason);
    await eventually(() => dropped('malformed') > 50_000 && dropped('foreign-pong') > 15_000, 'junk, counted', 60_000);
    const known = [0, 1].map((index) => pongsOf(gateway, index).length);
    await eventually(
      () => [0, 1].every((index) => pongsOf(gateway, index).length >= (known[index] ?? 0) + 20),
      'PONGs through the flood',
    );
    clearInterval(flood);
    expect(flooded.strays).toEqual([]);
  });
});

describe('a process that is stopped', () => {
  test('past the deadline reads first and then judges: no Error, no absurd latency', async () => {
    await startPeer(loopbackTunnel(0, PORT));
    const gateway = start(gatewayOptions(tunnelsOf(1), { intervalMs: 200, lossThreshold: 5 }));
    await eventually(() => pongsOf(gateway, 0).length >= 10, '10 PONGs');
    for (let round = 0; round < 5; round++) {
      gateway.child.kill('SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, 1_700));
      gateway.child.kill('SIGCONT');
      const known = pongsOf(gateway, 0).length;
      await eventually(() => pongsOf(gateway, 0).length >= known + 5, 'PONGs after the pause');
    }
    expect(gateway.observations.filter(({ value }) => value === 'Error')).toEqual([]);
    expect(gateway.observations.some(({ reason }) => reason === 'Starved')).toBe(true);
    expect(Math.max(...pongsOf(gateway, 0).map(({ rttNs = 0 }) => rttNs))).toBeLessThan(1_000_000_000);
  });
});

describe('a gateway that ends', () => {
  test('while it sends on 64 tunnels leaves no error and exits 0 (C28)', async () => {
    for (let round = 0; round < 5; round++) {
      const gateway = start(gatewayOptions(tunnelsOf(64), { intervalMs: 1, lossThreshold: 100 }));
      await eventually(
        () => gateway.observations.length > 0 || gateway.count('wg_keepalive_pings_sent_total') > 0,
        'PINGs',
      );
      expect(await gateway.stop()).toBe(0);
    }
  });
});

await describeReal('a peer that speaks Go’s JSON', ['go'], () => {
  test('is measured on several tunnels and measures us; one tunnel of it shows as such', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-go-peer-'));
    cleanUp.push(() => rm(folder, { recursive: true, force: true }));
    const program = join(folder, 'go-peer');
    const source = join(import.meta.dirname, '../support/go-peer/main.go');
    const [code] = await once(spawn('go', ['build', '-o', program, source], { stdio: 'inherit' }), 'exit');
    expect(code).toBe(0);
    const tunnels = tunnelsOf(3);
    const lines: string[] = [];
    const startGo = ({ local, peer }: TunnelEndpoint) => {
      const child = spawn(program, [`${peer.address}:${peer.port}`, '50ms', local.address], {
        ...{ stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, TZ: 'Europe/Rome' } },
      });
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => lines.push(line));
      cleanUp.push(() => child.kill());
    };
    startGo(tunnels[0] as TunnelEndpoint);
    const gateway = start(gatewayOptions(tunnels, FAST));
    await eventually(() => pongsOf(gateway, 0).length >= 20, 'PONGs of the Go peer');
    await eventually(() => gateway.last(2)?.reason === 'NeverAnswered:FirstTunnelOnly', 'the others’ reason');
    for (const tunnel of tunnels.slice(1)) startGo(tunnel);
    await eventually(() => [1, 2].every((index) => pongsOf(gateway, index).length >= 20), 'PONGs on all tunnels');
    await eventually(
      () => tunnels.every(({ local }) => lines.filter((line) => line.includes(` ${local.address} `)).length >= 20),
      'PONGs that the Go peer got',
    );
    expect(lines.every((line) => line.startsWith('go-cluster '))).toBe(true);
    expect(gateway.count('wg_keepalive_packets_dropped_total', 'malformed')).toBe(0);
  });
});
