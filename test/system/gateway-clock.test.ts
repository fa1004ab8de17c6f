import { glob, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { GatewayProcess, gatewayOptions, loopbackTunnel } from '../support/loopback.ts';
import { describeReal } from '../support/real-parts.ts';
import { after, UdpPeer } from '../support/udp-peer.ts';

const PORT = 24_512;
const DELAY_MS = 50;

async function faketimeLibrary(): Promise<string> {
  for await (const path of glob('/usr/lib/*/faketime/libfaketimeMT.so.1')) return path;
  throw new Error('faketime is there, but /usr/lib/*/faketime/libfaketimeMT.so.1 is not');
}

await describeReal('the wall clock', ['faketime'], () => {
  test('steps by an hour, back and forth, with PINGs on their way: no latency, cadence or verdict changes (C1)', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-clock-'));
    const offsetFile = join(folder, 'offset');
    await writeFile(offsetFile, '+0\n');
    const tunnel = loopbackTunnel(0, PORT);
    const peer = await UdpPeer.start(tunnel.peer, after(DELAY_MS));
    const gateway = new GatewayProcess(
      gatewayOptions([tunnel], { intervalMs: 200, lossThreshold: 10 }),
      (command, args) => ({ command, args }),
      {
        ...{ LD_PRELOAD: await faketimeLibrary(), FAKETIME_TIMESTAMP_FILE: offsetFile },
        ...{ DONT_FAKE_MONOTONIC: '1', FAKETIME_NO_CACHE: '1' },
      },
    );
    const pongs = () => gateway.of(0).filter(({ kind }) => kind === 'pong');
    for (const offset of ['+0', '+3600', '-3600', '+7200', '+0']) {
      const before = pongs().length;
      await writeFile(offsetFile, `${offset}\n`);
      await eventually(() => pongs().length >= before + 8, `PONGs at ${offset}`);
    }
    const labels = pongs().map(({ observedAt }) => Date.parse(observedAt));
    expect(Math.max(...labels) - Math.min(...labels)).toBeGreaterThan(3 * 3_600_000 - 60_000); // it did step
    expect(gateway.observations.filter(({ value }) => value === 'Error')).toEqual([]);
    for (const { rttNs = 0 } of pongs()) expect(rttNs).toBeGreaterThanOrEqual((DELAY_MS - 1) * 1e6);
    const sorted = pongs()
      .map(({ rttNs = 0 }) => rttNs)
      .sort((a, b) => a - b);
    expect(sorted[sorted.length >> 1]).toBeLessThan((DELAY_MS + 20) * 1e6);
    const times = gateway.of(0).map(({ monotonicMs }) => monotonicMs);
    const spanMs = (times.at(-1) ?? 0) - (times[0] ?? 0);
    expect(Math.abs(gateway.of(0).length - 1 - spanMs / 200)).toBeLessThanOrEqual(2);
    expect({ code: await gateway.stop(), stderr: gateway.stderr.join('') }).toEqual({ code: 0, stderr: '' });
    peer.close();
    await rm(folder, { recursive: true, force: true });
  });
});
