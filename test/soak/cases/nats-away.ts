import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { CATALOG } from '../../../functions/catalog.ts';
import { DEFAULT_PING_SETTINGS } from '../../../shared/domain/ping-settings.ts';
import { GATEWAY_MODES, type GatewayMode } from '../../../shared/domain/tunnel-interface.ts';
import { eventually } from '../../support/eventually.ts';
import { startConnectedLab } from '../connected-lab.ts';
import { LAB_NEEDS, type LongCase } from '../long-case.ts';

const RESUME_LIMIT_MS = 15_000;
const GIVE_UP_MS = 60_000;
/** Every PONG is written, so that a write shows that all of the path works. */
const PING = { ...DEFAULT_PING_SETTINGS, intervalMs: 1_000, updateStatusIntervalMs: 0 };
const FUNCTIONS = { updateStatusIntervalMs: 0, gatewaySilentAfterMs: 30_000 };

export const natsAway: LongCase = {
  name: 'C23',
  title: 'NATS is away for 120 s: gateways stay healthy and say so, functions are not ready, all resume within 15 s',
  needs: LAB_NEEDS,
  durationMs: 120_000,
  async run({ durationMs, say, signal }) {
    await using lab = await startConnectedLab({ tunnels: 2, ping: PING, functions: FUNCTIONS });
    const stamps = async () => (await lab.connections()).map(({ status }) => status?.latency?.timestamp);
    const faults: string[] = [];
    const connected = async (side: GatewayMode) =>
      Number(/^wg_keepalive_bus_connected (\S+)/m.exec(await lab.gatewayMetrics(side))?.[1]);
    const sent = async () =>
      Number(
        /^wg_keepalive_pings_sent_total\{interface="liqo-tunnel"\} (\S+)/m.exec(
          await lab.gatewayMetrics('server'),
        )?.[1],
      );
    await lab.setNats(false);
    const [sentBefore, startMs] = [await sent(), performance.now()];
    await sleep(durationMs, undefined, { signal });
    for (const side of GATEWAY_MODES) {
      if ((await connected(side)) !== 0) faults.push(`gateway ${side} does not show wg_keepalive_bus_connected 0`);
    }
    for (const { manifest } of CATALOG) {
      for (const { pid } of lab.processesOf(manifest.name)) {
        if (await isReady(pid)) faults.push(`${manifest.name} says that it is ready`);
      }
    }
    const due = (performance.now() - startMs) / PING.intervalMs;
    const pings = (await sent()) - sentBefore;
    say(`${pings} PINGs while NATS was away, ${due.toFixed(1)} were due`);
    if (Math.abs(pings - due) > 3) faults.push(`${pings} PINGs while NATS was away, ${due.toFixed(1)} were due`);
    const before = await stamps();
    await lab.setNats(true);
    const backMs = performance.now();
    const allMoved = async () => {
      const now = await stamps();
      return (
        now.length === GATEWAY_MODES.length && now.every((stamp, at) => stamp !== undefined && stamp !== before[at])
      );
    };
    await eventually(allMoved, 'new latencies on both Connections', GIVE_UP_MS).catch((error) =>
      faults.push(error.message),
    );
    const tookMs = performance.now() - backMs;
    say(`all resumed ${(tookMs / 1_000).toFixed(1)} s after NATS was back`);
    if (tookMs > RESUME_LIMIT_MS) faults.push(`it took ${(tookMs / 1_000).toFixed(1)} s to resume, 15 s are allowed`);
    const errors = (await lab.connections())
      .flatMap(({ status }) => status?.tunnels ?? [])
      .filter(({ value }) => value === 'Error');
    if (errors.length > 0) faults.push(`${errors.length} tunnels are Error although only NATS was away`);
    return faults;
  },
};

/** Asks `/readyz` at the address of the process's own command line. */
async function isReady(pid: number): Promise<boolean> {
  const args = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
  const address = args.find((arg) => arg.startsWith('--metrics-bind-address='))?.split('=')[1];
  return (await fetch(`http://${address}/readyz`)).ok;
}
