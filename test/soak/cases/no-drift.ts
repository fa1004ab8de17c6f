import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayMode } from '../../../shared/domain/tunnel-interface.ts';
import { eventually } from '../../support/eventually.ts';
import { WgKeepalive } from '../../support/wg-keepalive.ts';
import type { LongCase } from '../long-case.ts';

const INTERVAL_MS = 2_000;
const BLOCK_MS = 300;
const PORT = 12_930;
const LOCAL = '127.0.130.1';
const PEER = '127.0.130.2';
const ALLOWED = 3;
const START_LIMIT_MS = 60_000;

/** Loaded into every thread of the gateway: each of them stands still for a while in every interval. */
const blocker = `setInterval(() => { const end = performance.now() + ${BLOCK_MS}; while (performance.now() < end); }, ${INTERVAL_MS}).unref()`;

export const noDrift: LongCase = {
  name: 'C30',
  title: 'every thread of a gateway blocks for 300 ms an interval: after 10 minutes it has sent 300 ± 3 PINGs',
  needs: [],
  durationMs: 600_000,
  async run({ durationMs, say, signal }) {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-soak-'));
    const start = (mode: GatewayMode, tunnel: string, env: NodeJS.ProcessEnv) => {
      const flags = [
        `--mode=${mode}`,
        `--tunnel=t=${tunnel}`,
        `--ping-port=${PORT}`,
        `--ping-interval=${INTERVAL_MS}ms`,
      ];
      const about = ['--namespace=a', '--name=g', '--remote-cluster-id=b', '--nats-url=nats://127.0.0.1:1'];
      return WgKeepalive.start({ args: ['gateway', ...about, ...flags], env, folder: folder.path });
    };
    const blocked = { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(blocker)}` };
    await using _peer = await start('client', `${PEER},${LOCAL}`, process.env); // whom nobody answers sends more often
    await using gateway = await start('server', `${LOCAL},${PEER}`, blocked);
    const sent = () => gateway.metric('wg_keepalive_pings_sent_total');
    const isUp = async () => (await gateway.metric('wg_keepalive_tunnel_up').catch(() => 0)) === 1;
    await eventually(isUp, 'the first PONG', START_LIMIT_MS);
    const [before, startMs] = [await sent(), performance.now()];
    await sleep(durationMs, undefined, { signal });
    const due = (performance.now() - startMs) / INTERVAL_MS;
    const count = (await sent()) - before;
    say(`${count} PINGs, ${due.toFixed(1)} were due`);
    return Math.abs(count - due) <= ALLOWED ? [] : [`${count} PINGs, ${due.toFixed(1)} ± ${ALLOWED} were due`];
  },
};
