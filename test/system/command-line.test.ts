import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test, vi } from 'vitest';
import { onFreePorts } from '../../infra/servers/free-port.ts';
import { launchKubeApiserver } from '../../infra/servers/launch-kube-apiserver.ts';
import { launchNats } from '../../infra/servers/launch-nats.ts';
import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { GATEWAY_TYPE } from '../../shared/domain/gateway-announcement.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const main = join(import.meta.dirname, '../../shared/cli/main.ts');
const SOON = { timeout: 30_000, interval: 50 };

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

/** A `wg-keepalive` of its own, ended with the test. */
class Program implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly ended: Promise<Ended>;
  stderr = '';

  constructor(args: readonly string[], environment: NodeJS.ProcessEnv = {}) {
    const env = { PATH: process.env.PATH, HOME: '/nonexistent', ...environment };
    this.#child = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child.stderr?.setEncoding('utf8').on('data', (chunk) => {
      this.stderr += chunk;
    });
    this.ended = Promise.all([once(this.#child, 'close'), text(this.#child.stdout as NodeJS.ReadableStream)]).then(
      ([[code], stdout]) => ({ code, stdout, stderr: this.stderr }),
    );
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }
}

async function run(args: readonly string[], environment?: NodeJS.ProcessEnv): Promise<Ended> {
  await using program = new Program(args, environment);
  return await program.ended;
}

/** Free a moment ago: nobody listens there. */
const freePorts = (count: number) => onFreePorts(count, '127.0.0.1', async (ports) => ports);

/** A kubeconfig whose server is a closed port. */
async function unreachable(folder: string): Promise<{ readonly kubeconfig: string; readonly port: number }> {
  const [port = 0] = await freePorts(1);
  return { kubeconfig: await kubeconfigFor(folder, port), port };
}

async function kubeconfigFor(folder: string, port: number): Promise<string> {
  const kubeconfig = join(folder, 'kubeconfig');
  const config = {
    clusters: [{ name: 'c', cluster: { server: `https://127.0.0.1:${port}` } }],
    users: [{ name: 'u', user: { token: 'x' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  await writeFile(kubeconfig, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...config }));
  return kubeconfig;
}

async function createNamespace(admin: KubernetesClient, name: string): Promise<void> {
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
  await admin.call({ method: 'POST', path: '/api/v1/namespaces', body });
}

/** @returns the epoch that a gateway gets which announces itself now */
async function announce(url: string): Promise<number> {
  const bus = NatsBus.open({ servers: [url], name: 'test' }, systemClock, silentLogger);
  try {
    await bus.link.whenUp();
    const event = { id: randomUUID(), source: '/test', type: GATEWAY_TYPE, data: {} };
    return (await bus.publish(encodeCloudEvent('gateways.test.gw-test', event))).sequence;
  } finally {
    await bus.close();
  }
}

const inFolder = () => mkdtempDisposable(join(tmpdir(), 'wg-keepalive-cli-'));

/** Takes connections and says nothing. */
async function silentServer(): Promise<TcpProxy> {
  const server = await TcpProxy.start({ host: '127.0.0.1', port: 1 });
  server.blackhole();
  return server;
}

/** Stops the program as soon as it has called the silent server. */
async function stoppedWhileWaiting(args: readonly string[], silent: TcpProxy, environment: NodeJS.ProcessEnv) {
  await using program = new Program(args, environment);
  await vi.waitFor(() => expect(silent.accepted, program.stderr).toBeGreaterThan(0), SOON);
  program.signal('SIGINT');
  return await program.ended;
}

describe('a command that is stopped while it waits for a server that never answers', () => {
  test.each([
    ['replay'],
    ['explain', 'some/gw'],
    ['export', '--output=/tmp/never.jsonl.gz'],
    ['deadletters', 'list'],
    ['setup'],
  ])('ends with exit code 130, and blames nobody: %s', async (command, ...args) => {
    await using folder = await inFolder();
    await using silent = await silentServer();
    const environment = {
      KUBECONFIG: await kubeconfigFor(folder.path, silent.port),
      WG_KEEPALIVE_NATS_URL: `nats://127.0.0.1:${silent.port}`,
    };
    const { code, stdout, stderr } = await stoppedWhileWaiting([command, ...args], silent, environment);
    expect({ code, stdout }, stderr).toEqual({ code: 130, stdout: '' });
    expect(stderr).not.toContain(`wg-keepalive ${command}:`);
  });
});

describe('a command that cannot start', () => {
  test.each([
    [['function'], 'a function is missing: want all, or some of tunnel-status, '],
    [['function', 'tunnel-statu'], '"tunnel-statu": there is no such function; want all, or some of tunnel-status, '],
    [['function', 'all', '--nats-user=me'], '--nats-user and --nats-password-file: one needs the other'],
    [['function', 'all'], 'no Kubernetes access: '],
    [['setup'], 'no Kubernetes access: '],
  ])('ends with exit code 2 and one line: %j', async (args, message) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`wg-keepalive ${args[0]}: ${message}`);
    expect(stderr.trimEnd()).not.toContain('\n');
  });

  test('names the flag when its metrics address is taken', async () => {
    await using folder = await inFolder();
    const { kubeconfig } = await unreachable(folder.path);
    const squatter = createServer().listen(0, '127.0.0.1');
    await once(squatter, 'listening');
    const address = `127.0.0.1:${(squatter.address() as AddressInfo).port}`;
    const { code, stderr } = await run(['function', 'all', '--metrics-bind-address', address], {
      KUBECONFIG: kubeconfig,
    });
    squatter.close();
    expect(code).toBe(2);
    expect(stderr).toBe(
      `wg-keepalive function: --metrics-bind-address ${address}: cannot listen on ${address}: another process has the port; choose another address, or :0 for any port\n`,
    );
  });

  test('setup says which part is out of reach', async () => {
    await using folder = await inFolder();
    const { kubeconfig, port } = await unreachable(folder.path);
    const { code, stderr } = await run(['setup'], { KUBECONFIG: kubeconfig });
    expect(code).toBe(2);
    expect(stderr).toMatch(
      new RegExp(`^wg-keepalive setup: Kubernetes https://127.0.0.1:${port}: GET .+ECONNREFUSED.+\n$`),
    );
  });
});

describe('function, with nothing in reach', () => {
  test('is alive, not ready, says why, and stops when told', async () => {
    await using folder = await inFolder();
    const { kubeconfig, port } = await unreachable(folder.path);
    const [metrics = 0, nats = 0] = await freePorts(2);
    await using program = new Program(
      ['function', 'all', `--metrics-bind-address=127.0.0.1:${metrics}`, `--nats-url=nats://127.0.0.1:${nats}`],
      { KUBECONFIG: kubeconfig },
    );
    const get = (path: string) => fetch(`http://127.0.0.1:${metrics}${path}`);
    await vi.waitFor(async () => {
      expect((await get('/healthz')).status).toBe(200);
      const ready = await get('/readyz');
      expect(ready.status).toBe(503);
      const reasons = await ready.text();
      expect(reasons).toContain(`nats: cannot connect to nats://127.0.0.1:${nats}: connection refused`);
      expect(reasons).toContain(`kubernetes: https://127.0.0.1:${port}: `);
      expect(reasons).toContain('ECONNREFUSED');
    }, SOON);
    expect(await (await get('/metrics')).text()).toContain('wg_keepalive_event_loop_lag_seconds ');
    await vi.waitFor(() => expect(program.stderr).toContain('"not there yet, keeps trying"'), SOON);
    program.signal('SIGTERM');
    const { code, stderr } = await program.ended;
    expect(code).toBe(0);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

/** Arguments of one side of a loopback tunnel. */
function gatewayArgs(side: { readonly mode: GatewayMode; readonly metrics: number; readonly nats: number }) {
  const addresses = ['127.0.77.1', '127.0.77.2'];
  if (side.mode === 'client') addresses.reverse();
  return [
    ...['gateway', `--namespace=liqo-${side.mode}`, '--name=gw', `--mode=${side.mode}`, '--remote-cluster-id=other'],
    ...['--ping-interval=50ms', '--ping-loss-threshold=3', '--ping-port=12377', `--tunnel=liqo-tunnel=${addresses}`],
    ...[`--metrics-bind-address=127.0.0.1:${side.metrics}`, `--nats-url=nats://127.0.0.1:${side.nats}`],
  ];
}

describe('gateway, with NATS out of reach', () => {
  test('measures all the same, is ready, shows it, and owns up to what it could not deliver', async () => {
    const [metricsA = 0, metricsB = 0, nats = 0] = await freePorts(3);
    await using a = new Program(gatewayArgs({ mode: 'server', metrics: metricsA, nats }));
    await using b = new Program(gatewayArgs({ mode: 'client', metrics: metricsB, nats }));
    await vi.waitFor(async () => {
      for (const port of [metricsA, metricsB]) {
        const shown = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
        expect(shown).toContain('wg_keepalive_tunnel_up{interface="liqo-tunnel"} 1\n');
        expect(shown).toContain('wg_keepalive_bus_connected 0\n');
      }
    }, SOON);
    expect((await fetch(`http://127.0.0.1:${metricsA}/readyz`)).status).toBe(200);
    await vi.waitFor(() => expect(a.stderr).toContain(`cannot connect to nats://127.0.0.1:${nats}`), SOON);
    for (const program of [a, b]) program.signal('SIGTERM');
    for (const program of [a, b]) {
      const { code, stderr } = await program.ended;
      expect(code).toBe(1);
      expect(stderr).toMatch(/"unsent":\d+,"msg":"stopped with observations that the bus did not take"/);
      expect(stderr).not.toContain('"stack"');
    }
  });
});

await describeReal('the commands on real parts', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  test('setup is idempotent; functions wait for it, are ready after it, and end cleanly', async () => {
    await using api = await launchKubeApiserver();
    await using nats = await launchNats();
    const [metrics = 0] = await freePorts(1);
    const environment = { KUBECONFIG: api.kubeconfig, WG_KEEPALIVE_NATS_URL: nats.url };
    await using program = new Program(['function', 'all', `--metrics-bind-address=127.0.0.1:${metrics}`], environment);
    const readiness = async () => await (await fetch(`http://127.0.0.1:${metrics}/readyz`)).text();
    await vi.waitFor(async () => {
      expect(await readiness()).toMatch(/^nats: ok\nkubernetes: .*run "wg-keepalive setup"/);
    }, SOON);

    const first = await run(['setup'], environment);
    expect(first).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+ checked, \d+ changed: CRD .* created/),
    });
    await vi.waitFor(async () => expect(await readiness()).toBe('nats: ok\nkubernetes: ok\nwatch: ok\n'), SOON);

    const second = await run(['setup'], environment);
    expect(second).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+ checked, 0 changed\n$/) });

    const wider = await run(['setup', '--history-max-age=72h', '--observations-max-bytes=3Gi'], environment);
    expect(wider).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^\d+ checked, 2 changed: stream OBSERVATIONS updated, stream DECISIONS updated\n$/,
      ),
    });

    const announced = () => announce(nats.url);
    const before = await announced();
    const restoredAtMs = Date.now();
    const restored = await run(['setup', '--restored'], environment);
    expect(restored).toMatchObject({ code: 0, stderr: expect.stringContaining('restart nats-server now') });
    expect(await announced()).toBeGreaterThanOrEqual(Math.max(before + 1, restoredAtMs));

    program.signal('SIGTERM');
    expect(await program.ended).toMatchObject({ code: 0 });
  });

  test('gateways and functions together: both Connections become Connected', async () => {
    await using api = await launchKubeApiserver();
    await using nats = await launchNats();
    const environment = { KUBECONFIG: api.kubeconfig, WG_KEEPALIVE_NATS_URL: nats.url };
    expect(await run(['setup'], environment)).toMatchObject({ code: 0 });
    const admin = await KubernetesClient.connect({ clock: systemClock, kubeconfig: api.kubeconfig });
    const sides = ['server', 'client'] as const;
    for (const mode of sides) await createNamespace(admin, `liqo-${mode}`);

    const [metricsA = 0, metricsB = 0, metrics = 0] = await freePorts(3);
    const natsPort = Number(new URL(nats.url).port);
    await using server = new Program(gatewayArgs({ mode: 'server', metrics: metricsA, nats: natsPort }));
    await using client = new Program(gatewayArgs({ mode: 'client', metrics: metricsB, nats: natsPort }));
    const args = ['function', 'all', '--ping-update-status-interval=1s', `--metrics-bind-address=127.0.0.1:${metrics}`];
    await using functions = new Program(args, environment);

    const store = new KubernetesConnectionStore(admin);
    await vi.waitFor(async () => {
      for (const mode of sides) {
        const connection = await store.get({ namespace: `liqo-${mode}`, name: 'gw-gw' });
        expect(connection?.status).toMatchObject({
          value: 'Connected',
          latency: { value: expect.stringMatching(/^[\d.]+(µs|ms|s)$/) },
          tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Connected', latency: { value: expect.any(String) } }],
        });
      }
    }, SOON);
    admin.close();
    for (const program of [server, client, functions]) program.signal('SIGTERM');
    for (const program of [server, client, functions]) expect(await program.ended).toMatchObject({ code: 0 });
  });

  test('setup ends with exit code 2 where NATS does not answer', { timeout: 120_000 }, async () => {
    await using api = await launchKubeApiserver();
    const nats = await launchNats();
    await nats[Symbol.asyncDispose]();
    const { code, stderr } = await run(['setup'], { KUBECONFIG: api.kubeconfig, WG_KEEPALIVE_NATS_URL: nats.url });
    expect(code).toBe(2);
    expect(stderr).toContain('is it there, and may this user in?');
  });

  test('setup that is stopped while it waits for NATS ends with exit code 130', async () => {
    await using api = await launchKubeApiserver();
    await using silent = await silentServer();
    const environment = { KUBECONFIG: api.kubeconfig, WG_KEEPALIVE_NATS_URL: `nats://127.0.0.1:${silent.port}` };
    const { code, stderr } = await stoppedWhileWaiting(['setup'], silent, environment);
    expect(code, stderr).toBe(130);
    expect(stderr).not.toContain('wg-keepalive setup:');
  });

  test('setup refuses a NATS account that belongs to another cluster', async () => {
    await using nats = await launchNats();
    const codes: (number | null)[] = [];
    let said = '';
    for (let cluster = 0; cluster < 2; cluster++) {
      await using api = await launchKubeApiserver();
      const { code, stderr } = await run(['setup'], { KUBECONFIG: api.kubeconfig, WG_KEEPALIVE_NATS_URL: nats.url });
      codes.push(code);
      said = stderr;
    }
    expect(codes).toEqual([0, 2]);
    expect(said).toContain('this NATS account belongs to another cluster');
  });
});
