import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { onFreePorts } from '../../infra/servers/free-port.ts';
import { COMMANDS } from '../../shared/cli/command-table.ts';
import { lockedPackages } from '../support/dependencies-page.ts';

const root = join(import.meta.dirname, '../..');
const exec = promisify(execFile);

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string };

let folder: string;
let program: string;
let installed: string;

async function end(command: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
  try {
    return { code: 0, ...(await exec(command, [...args], { cwd: folder, env: { ...process.env, ...env } })) };
  } catch (error) {
    return error as Ended;
  }
}

/** The packed package, installed in a folder of its own, without a registry: nothing else is needed. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-package-'));
  const { stdout } = await exec('npm', ['pack', '--json', '--pack-destination', folder], { cwd: root });
  // Builds print before the JSON does.
  const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as [{ readonly filename: string }];
  await exec('npm', ['install', '--offline', '--no-audit', '--no-fund', join(folder, filename)], { cwd: folder });
  program = join(folder, 'node_modules/.bin/wg-keepalive');
  installed = join(folder, 'node_modules/wg-keepalive');
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe('the package, packed and installed elsewhere', () => {
  it('needs no other package', async () => {
    const packages = (await readdir(join(folder, 'node_modules'))).filter((name) => !name.startsWith('.'));
    expect(packages).toEqual(['wg-keepalive']);
  });

  it('holds the program, its data and the licenses of what is inside, no sources and no tests', async () => {
    const files = (await readdir(installed, { recursive: true })).filter((file) => !file.includes('chunks'));
    expect(files).toEqual(expect.arrayContaining(['dist/wg-keepalive.js', 'LICENSE', 'infra/crds']));
    expect(files.filter((file) => /\.ts$|^(functions|shared|test)/.test(file))).toEqual([]);
    const licenses = await readFile(join(installed, 'dist/THIRD-PARTY-LICENSES.txt'), 'utf8');
    for (const name of ['@kubernetes/client-node', '@nats-io/jetstream', 'ajv', 'pino', 'prom-client']) {
      expect(licenses).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\(`, 'm'));
    }
  });

  it('is executable and shows its help', async () => {
    expect((await stat(program)).mode & 0o111).toBe(0o111);
    const { code, stdout, stderr } = await end(program, ['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('Usage: wg-keepalive COMMAND [FLAGS]');
  });

  it.each(Object.keys(COMMANDS))('shows the help of %s', async (command) => {
    const { code, stdout } = await end(program, [command, '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain(`Usage: wg-keepalive ${command} `);
  });

  it('ends with exit code 2 and one line on a wrong flag', async () => {
    const { code, stdout, stderr } = await end(program, ['gateway', '--ping-interval=soon']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe(
      'wg-keepalive gateway: --ping-interval "soon": want a duration such as 50ms, 2s or 1m30s, from 1ms to 1h0m0s\n',
    );
  });

  it.each<readonly [readonly string[], string]>([
    [['gatway'], 'wg-keepalive gatway: there is no such command: want one of gateway, function, setup, lab'],
    [[], 'wg-keepalive: a command is missing'],
    [['lab', '--parts=real'], 'wg-keepalive lab: --parts real: the package has no servers to build; want a checkout'],
  ])('ends with exit code 2 on %j', async (args, message) => {
    const { code, stderr } = await end(program, args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(stderr.trimEnd()).not.toContain('\n');
  });

  it('has all chunks and data of its commands', async () => {
    const config = { clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }] };
    const contexts = [{ name: 'x', context: { cluster: 'c', user: 'u' } }];
    const kubeconfig = { ...config, contexts, users: [{ name: 'u', user: {} }], 'current-context': 'x' };
    await writeFile(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig));
    const environment = { KUBECONFIG: join(folder, 'kubeconfig') };
    const setup = await end(program, ['setup'], environment); // reads its CRDs first
    expect(setup).toMatchObject({ code: 2, stderr: expect.stringContaining('connect ECONNREFUSED 127.0.0.1:1') });
    const unknown = await end(program, ['function', 'none'], environment);
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('want all, or some of tunnel-status') });
  });

  it('measures: the thread of the engine starts, and what it sees shows in the metrics', async () => {
    const [port = 0] = await onFreePorts(1, '127.0.0.1', async (ports) => ports);
    const args = ['gateway', '--namespace=a', '--name=g', '--mode=server', '--remote-cluster-id=b'];
    const flags = ['--tunnel=t=127.0.78.1,127.0.78.2', '--ping-interval=20ms', '--ping-port=12378'];
    const gateway = spawn(program, [...args, ...flags, `--metrics-bind-address=127.0.0.1:${port}`], {
      stdio: 'ignore',
    });
    try {
      await vi.waitFor(
        async () => {
          const shown = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
          expect(shown).toMatch(/^wg_keepalive_pings_sent_total\{interface="t"\} [1-9]/m);
        },
        { timeout: 30_000, interval: 50 },
      );
    } finally {
      gateway.kill('SIGKILL');
    }
  });

  it('serves its page, all of it', async () => {
    const lab = spawn(program, ['lab', '--ui-bind-address=127.0.0.1:0', '--tunnels=1'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      const [line] = (await once(createInterface({ input: lab.stdout }), 'line')) as [string];
      const url = line.replace('page: ', '');
      const page = await (await fetch(url)).text();
      const files = [...page.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, path]) => path as string);
      expect(files).toContain('app.js');
      for (const path of [...files, 'vendor/uplot.js']) expect((await fetch(url + path)).status, path).toBe(200);
    } finally {
      lab.kill('SIGKILL');
    }
  });

  it('says which Node it needs when it runs on an older one', async () => {
    const older = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.0" } })';
    const preload = `--import=data:text/javascript,${encodeURIComponent(older)}`;
    const { code, stdout, stderr } = await end(program, ['--help'], { NODE_OPTIONS: preload });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    const { engines } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
    expect(engines).toEqual({ node: '>=22.19' });
    expect(stderr).toMatch(/^wg-keepalive: this is Node 20\.19\.0 \(.+\), 22\.19 or newer is needed: /);
  });
});

describe('npm run sbom', () => {
  type Component = {
    readonly 'bom-ref': string;
    readonly name: string;
    readonly licenses: readonly object[];
    readonly hashes: readonly object[];
  };

  it('names every package that is installed, with version, license and hash', async () => {
    const { stdout } = await exec('npm', ['run', '--silent', 'sbom'], { cwd: root, maxBuffer: 2 ** 26 });
    const { bomFormat, components } = JSON.parse(stdout) as { bomFormat: string; components: readonly Component[] };
    expect(bomFormat).toBe('CycloneDX');
    const there = (await lockedPackages()).filter(({ path }) => existsSync(join(root, path)));
    expect(there.length).toBeGreaterThan(100);
    expect(components.map((component) => component['bom-ref'])).toEqual(
      expect.arrayContaining(there.map(({ name, version }) => `${name}@${version}`)),
    );
    expect(components.filter(({ licenses }) => !licenses?.length)).toEqual([]);
    const unlocked = components.filter(({ hashes }) => !hashes?.length).map(({ name }) => name);
    // Node itself: the package `node` installs it for the platform, in its version, beside the lock file.
    expect(unlocked.filter((name) => !/^node-(bin-)?\w+-\w+$/.test(name))).toEqual([]);
  });
});
