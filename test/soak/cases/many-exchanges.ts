import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayMode } from '../../../shared/domain/tunnel-interface.ts';
import { WgKeepalive } from '../../support/wg-keepalive.ts';
import type { LongCase } from '../long-case.ts';

const EXCHANGES = 70_000;
const PORT = 12_933;
const LOCAL = '127.0.133.1';
const PEER = '127.0.133.2';
const LOOK_EVERY_MS = 1_000;
/** What two counters, read one after the other, may differ by: some seconds' worth. */
const ALLOWED = 5_000;

export const manyExchanges: LongCase = {
  name: 'C33',
  title: '70,000 exchanges on one tunnel: PINGs sent, PINGs answered and PONGs received agree, beyond 16 bits',
  needs: [],
  durationMs: 300_000,
  async run({ durationMs, say, signal }) {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-soak-'));
    const start = (mode: GatewayMode, tunnel: string) => {
      const ping = [`--ping-port=${PORT}`, '--ping-interval=1ms', '--ping-loss-threshold=100'];
      const about = ['--namespace=a', '--name=g', '--remote-cluster-id=b', '--nats-url=nats://127.0.0.1:1'];
      const args = ['gateway', ...about, ...ping, `--mode=${mode}`, `--tunnel=t=${tunnel}`];
      return WgKeepalive.start({ args, env: process.env, folder: folder.path });
    };
    await using peer = await start('client', `${PEER},${LOCAL}`);
    await using gateway = await start('server', `${LOCAL},${PEER}`);
    const read = async (which: WgKeepalive, name: string) => (await which.metric(name).catch(() => 0)) ?? 0;
    const received = () => read(gateway, 'wg_keepalive_pongs_received_total');
    const endMs = performance.now() + durationMs;
    while ((await received()) < EXCHANGES && performance.now() < endMs) {
      await sleep(LOOK_EVERY_MS, undefined, { signal });
    }
    const counts = {
      received: await received(),
      measured: await read(gateway, 'wg_keepalive_rtt_seconds_count'),
      sent: await read(gateway, 'wg_keepalive_pings_sent_total'),
      answered: await read(peer, 'wg_keepalive_pings_answered_total'),
    };
    say(JSON.stringify(counts));
    return Object.entries(counts).flatMap(([name, count]) => {
      if (count < EXCHANGES) return [`${name}: ${count}, want ${EXCHANGES} or more`];
      return Math.abs(count - counts.received) <= ALLOWED ? [] : [`${name}: ${count}, but ${counts.received} received`];
    });
  },
};
