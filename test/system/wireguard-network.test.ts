import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { startWireguardNetwork, type WireguardNetwork } from '../../infra/lab/wireguard-network.ts';
import { GATEWAY_MODES, type GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { describeReal } from '../support/real-parts.ts';

const run = promisify(execFile);
const module = join(import.meta.dirname, '../../infra/lab/wireguard-network.ts');

let logFolder: string;

beforeAll(async () => {
  logFolder = await mkdtemp(join(tmpdir(), 'wg-keepalive-network-'));
});

afterAll(() => rm(logFolder, { recursive: true, force: true }));

await describeReal('network of WireGuard tunnels', ['root', 'netns', 'tun', 'wireguard-go', 'nft'], () => {
  test('waits where other labs hold what wireguard-go needs to start, and says for what', async () => {
    const folder = join(logFolder, 'bin');
    await mkdir(folder);
    const refusesOnce = `#!/bin/sh
if mkdir ${folder}/refused; then echo "Failed to listen on uapi socket: too many open files"; exit 1; fi
PATH=\${PATH#*:} exec wireguard-go "$@"
`;
    await writeFile(join(folder, 'wireguard-go'), refusesOnce, { mode: 0o755 });
    vi.stubEnv('PATH', `${folder}:${process.env.PATH}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const waits: string[] = [];
    await using network = await startWireguardNetwork({ tunnels: 1, logFolder, onWait: (why) => waits.push(why) });
    expect(waits).toEqual([expect.stringMatching(/^liqo-tunnel: .*inotify.*allows a user \d+; trying again$/)]);
    expect(await probe(network, '169.254.18.2')).toBe(reached);
  });

  describe('with two tunnels', () => {
    let network: WireguardNetwork;

    beforeAll(async () => {
      network = await startWireguardNetwork({ tunnels: 2, logFolder });
    });

    afterAll(() => network[Symbol.asyncDispose]());

    test('carries datagrams through each tunnel, and to what listens for both sides', async () => {
      expect(await probe(network, '169.254.18.2')).toBe(reached);
      expect(await probe(network, '169.254.18.6')).toBe(reached);
      expect(await probe(network, network.host)).toBe(reached);
      expect(await probe(network, network.host, 15_000, 'client')).toBe(reached);
      expect(await network.exec('server', 'wg', ['show', 'interfaces'])).toMatch(/^liqo-tunnel1? liqo-tunnel1?$/m);
    });

    test('cuts one tunnel without the sender noticing, and no other', async () => {
      await network.cut('liqo-tunnel1');
      await network.cut('liqo-tunnel1');
      expect(await probe(network, '169.254.18.6', 1_000)).toBe('silence');
      expect(await probe(network, '169.254.18.2')).toBe(reached);
      await network.restore('liqo-tunnel1');
      expect(await probe(network, '169.254.18.6')).toBe(reached);
    });

    test('cuts inside: the sender is refused', async () => {
      await network.cutInside('liqo-tunnel1');
      expect(await probe(network, '169.254.18.6')).toBe('EPERM');
      await network.restore('liqo-tunnel1');
      await network.restore('liqo-tunnel1');
      expect(await probe(network, '169.254.18.6')).toBe(reached);
    });

    test('loses the part of the packets that it is told, of one side only if told so', async () => {
      await network.lose('liqo-tunnel1', 1, 'client');
      expect(await probe(network, '169.254.18.6', 1_000)).toBe('silence'); // what the client answers is lost
      await network.lose('liqo-tunnel1', 0.5);
      expect(await probe(network, '169.254.18.6')).toBe(reached);
      await network.lose('liqo-tunnel1', 0);
      expect(await probe(network, '169.254.18.6')).toBe(reached);
    });

    test('adds and removes interfaces on both sides', async () => {
      await network.scale(3);
      expect(await probe(network, '169.254.18.10')).toBe(reached);
      await network.removeTunnel('liqo-tunnel');
      await network.addTunnel(0);
      expect(await probe(network, '169.254.18.2')).toBe(reached);
      await network.scale(1);
      for (const side of ['server', 'client'] as const) {
        expect(await network.exec(side, 'wg', ['show', 'interfaces'])).toBe('liqo-tunnel\n');
      }
      await expect(network.cut('liqo-tunnel1')).rejects.toThrow('no tunnel "liqo-tunnel1": there are liqo-tunnel');
      await expect(network.addTunnel(0)).rejects.toThrow('tunnel "liqo-tunnel" exists already');
    });
  });

  test('several that start at once have addresses of their own, which both sides reach', async () => {
    await using networks = new AsyncDisposableStack();
    const starts = await Promise.all([1, 2, 3].map(() => startWireguardNetwork({ tunnels: 1, logFolder })));
    for (const network of starts) networks.use(network);
    expect(new Set(starts.flatMap(({ rootInterfaces }) => rootInterfaces)).size).toBe(6);
    for (const network of starts) {
      for (const side of GATEWAY_MODES) expect(await probe(network, network.host, 5_000, side)).toBe(reached);
    }
  });

  test('C36: leaves nothing behind, killed or not, and starts again at once', async () => {
    for (let round = 0; round < 3; round++) {
      const child = spawn(process.execPath, ['--input-type=module-typescript', '--eval', holdNetwork(logFolder)]);
      const [line] = await once(createInterface(child.stdout), 'line');
      const interfaces = JSON.parse(line) as string[];
      expect(interfaces).toHaveLength(2);
      expect(await present(interfaces)).toEqual(interfaces);
      child.kill('SIGKILL');
      await once(child, 'exit');
      await expect.poll(() => present(interfaces), { timeout: 20_000 }).toEqual([]);
    }
    const network = await startWireguardNetwork({ tunnels: 1, logFolder });
    expect(await probe(network, '169.254.18.2')).toBe(reached);
    await network[Symbol.asyncDispose]();
    await expect.poll(() => present(network.rootInterfaces), { timeout: 20_000 }).toEqual([]);
  });

  test('C36: without the right to make networks it says so', async () => {
    const powerless = ['--bounding-set', '-sys_admin,-net_admin', '--inh-caps', '-sys_admin,-net_admin'];
    const command = [
      ...powerless,
      process.execPath,
      '--input-type=module-typescript',
      '--eval',
      holdNetwork(logFolder),
    ];
    const failure = await run('setpriv', command).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      stderr: expect.stringMatching(
        /does not start: network namespace server .*[\s\S]*Operation not permitted[\s\S]*CAP_NET_ADMIN/,
      ),
    });
  });
});

test('names everything that is missing', async () => {
  const nowhere = { env: { PATH: '' } };
  const failure = await run(
    process.execPath,
    ['--input-type=module-typescript', '--eval', holdNetwork('.')],
    nowhere,
  ).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    stderr: expect.stringMatching(/needs .*wireguard-go on PATH \(apt-get install wireguard-go\).*nft on PATH/),
  });
});

/**
 * What becomes of a datagram to a port where nobody listens: `ECONNREFUSED` says that it got there, `silence` that it
 * did not, anything else is the kernel's own refusal.
 */
function probe(network: WireguardNetwork, host: string, deadlineMs = 15_000, side: GatewayMode = 'server') {
  const script = `
    const socket = require('node:dgram').createSocket('udp4');
    const end = (word) => { console.log(word); process.exit(); };
    socket.on('error', ({ code }) => end(code));
    socket.connect(9, ${JSON.stringify(host)}, () => {
      const send = () => socket.send('?', (error) => error && end(error.code));
      send();
      setInterval(send, 200);
      setTimeout(end, ${deadlineMs}, 'silence');
    });`;
  return network.exec(side, process.execPath, ['--eval', script]).then((output) => output.trim());
}

const reached = 'ECONNREFUSED';

/** A program that starts a network, says so, and stays. */
function holdNetwork(folder: string): string {
  return `
    import { startWireguardNetwork } from ${JSON.stringify(module)};
    const network = await startWireguardNetwork({ tunnels: 1, logFolder: ${JSON.stringify(folder)} });
    console.log(JSON.stringify(network.rootInterfaces));
    setInterval(() => {}, 1_000);
  `;
}

/** Those of these interfaces that the root namespace has. */
async function present(names: readonly string[]): Promise<string[]> {
  const { stdout } = await run('ip', ['-json', 'link']);
  const links = JSON.parse(stdout) as readonly { readonly ifname: string }[];
  return names.filter((name) => links.some(({ ifname }) => ifname === name));
}
