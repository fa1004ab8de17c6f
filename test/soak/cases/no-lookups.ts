import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NetworkNamespace } from '../../../infra/lab/network-namespace.ts';
import { gatewayFlags, wgKeepalive } from '../../../infra/lab/wg-keepalive-process.ts';
import { startProcess, stopProcess } from '../../../infra/servers/process.ts';
import { DEFAULT_PING_SETTINGS } from '../../../shared/domain/ping-settings.ts';
import { type GatewayMode, interfaceIdOf, MAX_TUNNELS } from '../../../shared/domain/tunnel-interface.ts';
import { holdingsOf } from '../holdings.ts';
import type { LongCase } from '../long-case.ts';

const ALLOWED_MIB = 10;
/** NATS is not there, so the outbox fills until it begins to coalesce: 1,000 observations a tunnel, 100 s. */
const WARM_UP_MS = 150_000;
const PING = { ...DEFAULT_PING_SETTINGS, intervalMs: 100 };

/** A way out that leads nowhere, and a count of what asks for names on it. */
const NETWORK = `link add out type veth peer name nowhere
address add 10.19.0.1/30 dev out
link set out up
link set nowhere up
route add default via 10.19.0.2 dev out
`;
const COUNTER = `table inet probe {
  chain out { type filter hook output priority 0; udp dport 53 counter; tcp dport 53 counter; }
}
`;

export const noLookups: LongCase = {
  name: 'C29',
  title: 'the resolver is a black hole, 64 tunnels at 100 ms: no lookup for 10 minutes, and no memory grows',
  needs: ['root', 'netns', 'nft'],
  durationMs: 600_000,
  async run({ durationMs, say, signal }) {
    await using cleanUp = new AsyncDisposableStack();
    const folder = cleanUp.use(await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-soak-')));
    const namespace = cleanUp.use(await NetworkNamespace.open('soak', join(folder.path, 'namespace.log')));
    await namespace.exec('ip', ['-batch', '-'], NETWORK);
    await namespace.exec('nft', ['-f', '-'], COUNTER);
    const start = async (mode: GatewayMode) => {
      const gateway = { namespace: 'a', name: mode, mode, clusterId: 'b', uid: 'u' } as never;
      const tunnels = Array.from({ length: MAX_TUNNELS }, (_, index) => {
        const ends = [`127.0.${131 + index}.1`, `127.0.${131 + index}.2`];
        return `--tunnel=${interfaceIdOf(index)}=${(mode === 'server' ? ends : ends.toReversed()).join(',')}`;
      });
      const flags = [...gatewayFlags(gateway, { tunnels: MAX_TUNNELS, ping: PING }), ...tunnels];
      const { command, args } = wgKeepalive(
        'gateway',
        ...flags,
        '--nats-url=nats://127.0.0.1:1',
        '--metrics-bind-address=:0',
      );
      const logFile = join(folder.path, `${mode}.log`);
      const started = await startProcess({ name: mode, ...namespace.commandLine(command, args), logFile });
      cleanUp.defer(async () => void (await stopProcess(started)));
      return started;
    };
    const gateways = [await start('server'), await start('client')];
    await sleep(WARM_UP_MS, undefined, { signal });
    const resident = () => Promise.all(gateways.map(async ({ pid }) => (await holdingsOf('gateway', pid)).residentMib));
    const before = await resident();
    await sleep(durationMs, undefined, { signal });
    const after = await resident();
    const counters = await namespace.exec('nft', ['list', 'table', 'inet', 'probe']);
    const lookups = [...counters.matchAll(/counter packets (\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
    const grown = after.map((mib, index) => mib - (before[index] ?? 0));
    say(
      `${lookups} lookups; memory: ${after.map((mib) => mib.toFixed(1)).join(' and ')} MiB, ${grown.map((mib) => mib.toFixed(1)).join(' and ')} more than after the warm-up`,
    );
    return [
      ...(lookups === 0 ? [] : [`${lookups} packets to port 53`]),
      ...grown
        .filter((mib) => mib >= ALLOWED_MIB)
        .map((mib) => `a gateway grew by ${mib.toFixed(1)} MiB, less than ${ALLOWED_MIB} are allowed`),
    ];
  },
};
