import { type ChildProcess, spawn } from 'node:child_process';
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
import { describeReal } from '../support/real-parts.ts';

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
  const kubeconfig = join(folder, 'kubeconfig');
  const config = {
    clusters: [{ name: 'c', cluster: { server: `https://127.0.0.1:${port}` } }],
    users: [{ name: 'u', user: { token: 'x' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  await writeFile(kubeconfig, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...config }));
  return { kubeconfig, port };
}

const inFolder = () => mkdtempDisposable(join(tmpdir(), 'wg-keepalive-cli-'));

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
    await vi.waitFor(() => expect(program.stderr).toContain('"not ready, keeps trying"'), SOON);
    program.signal('SIGTERM');
    const { code, stderr } = await program.ended;
    expect(code).toBe(0);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

await describeReal('setup and function on real parts', ['nats-server', 'etcd', 'kube-apiserver'], () => {
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

    program.signal('SIGTERM');
    expect(await program.ended).toMatchObject({ code: 0 });
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
