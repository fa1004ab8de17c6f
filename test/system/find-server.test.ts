import { spawnSync } from 'node:child_process';
import { mkdir, mkdtempDisposable, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { BuildProgress } from '../../infra/servers/build-progress.ts';
import { buildServer, cachedBinary } from '../../infra/servers/builder.ts';
import { ALL_NAMES, readPart } from '../../infra/servers/catalog.ts';
import { requireServer, searchServer } from '../../infra/servers/find.ts';

// PATH, cache and Go are made up here, so nothing is really built: scripts stand for the binaries.

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('looking for a server', () => {
  test.for(ALL_NAMES)('%s is pinned in its go.mod', async (name) => {
    const part = await readPart(name);
    expect(part.package.startsWith(part.module)).toBe(true);
    expect(part.version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(part.goVersion).toMatch(/^1\.\d+\.\d+$/);
  });

  test('takes KUBEBUILDER_ASSETS before PATH, and PATH before the cache', async () => {
    await using desk = await emptyDesk();
    const { version } = await readPart('etcd');
    await desk.script(await cachedBinary(await readPart('etcd')), '');
    expect((await searchServer('etcd')).found).toMatchObject({ source: 'cache', version });
    await desk.script(`${desk.bin}/etcd`, `echo "etcd Version: ${version}"`);
    expect((await searchServer('etcd')).found).toMatchObject({ source: 'PATH', version });
    await desk.script(`${desk.assets}/etcd`, `echo "etcd Version: ${version}"`);
    expect((await searchServer('etcd')).found).toMatchObject({
      source: 'KUBEBUILDER_ASSETS',
      path: `${desk.assets}/etcd`,
    });
  });

  test('passes over an older minor, another major and one that cannot run, and says so', async () => {
    await using desk = await emptyDesk();
    await desk.script(`${desk.assets}/nats-server`, 'echo nats-server: v2.9.25');
    await desk.script(`${desk.bin}/nats-server`, 'exit 126');
    const { found, passedOver } = await searchServer('nats-server');
    expect(found).toBeUndefined();
    expect(passedOver).toEqual([
      expect.stringMatching(/assets\/nats-server \(KUBEBUILDER_ASSETS\) is 2\.9\.25, 2\.\d+\.\d+ or a later minor is/),
      expect.stringMatching(/bin\/nats-server \(PATH\) tells no version/),
    ]);
    await desk.script(`${desk.bin}/nats-server`, 'echo nats-server: v3.99.0');
    expect((await searchServer('nats-server')).found).toBeUndefined();
    await desk.script(`${desk.bin}/nats-server`, 'echo nats-server: v2.99.0');
    expect((await searchServer('nats-server')).found).toMatchObject({ version: '2.99.0' });
  });

  test('names the ways to get it where there is no Go', async () => {
    await using _desk = await emptyDesk();
    await expect(requireServer('etcd')).rejects.toMatchObject({
      code: 'SERVER_MISSING',
      message: expect.stringMatching(
        /no "go" on PATH.*install Go 1\.\d+.*npm run servers -- etcd.*KUBEBUILDER_ASSETS/s,
      ),
    });
  });
});

describe('building a server', () => {
  const compile = 'echo go.etcd.io/etcd >&2; echo "#!/bin/sh" > "$output"; /bin/chmod +x "$output"';

  test('runs Go once for two who want the part at the same time', async () => {
    await using desk = await emptyDesk();
    const runs = await desk.go(compile);
    const part = await readPart('etcd');
    const progress: BuildProgress[] = [];
    const report = (sign: BuildProgress) => progress.push(sign);
    const paths = await Promise.all([buildServer(part, report), buildServer(part, report)]);
    expect(new Set(paths)).toEqual(new Set([await cachedBinary(part)]));
    expect(await runs()).toBe(1);
    expect(progress.filter(({ done }) => done).map(({ detail }) => detail)).toEqual([
      `built: ${paths[0]}`,
      `built meanwhile by another process: ${paths[0]}`,
    ]);
    expect(await readdir(dirname(await cachedBinary(part)))).toEqual(['etcd']);
    expect(await requireServer('etcd')).toBe(paths[0]);
  });

  test('takes over the lock of a process that died', async () => {
    await using desk = await emptyDesk();
    await desk.go(compile);
    const part = await readPart('etcd');
    const binary = await cachedBinary(part);
    await mkdir(dirname(binary), { recursive: true });
    await writeFile(`${binary}.lock`, `${spawnSync('/bin/true').pid}`);
    expect(await buildServer(part, () => {})).toBe(binary);
  });

  test.for([
    ['dial tcp: lookup proxy.example: no such host', /could not fetch modules.*GOPROXY \(the-proxy\)/],
    ['go: go.mod requires go >= 1.26.0 (running go 1.19)', /Go is too old\. Install Go 1\.\d+.*apt-get/],
    ['write /tmp/x.a: no space left on device', /The disk is full/],
    ['./main.go:1:1: syntax error', /To see everything: cd .*etcd && go build/],
  ] as const)('explains "%s"', async ([output, advice]) => {
    await using desk = await emptyDesk();
    await desk.go(`echo "${output}" >&2; exit 1`);
    const part = await readPart('etcd');
    const failure = buildServer(part, () => {});
    await expect(failure).rejects.toMatchObject({
      code: 'SERVER_BUILD_FAILED',
      message: expect.stringMatching(advice),
    });
    await expect(failure).rejects.toThrow(output);
    expect(await readdir(dirname(await cachedBinary(part)))).toEqual([]);
  });
});

describe('a suite on real parts', () => {
  const suite = `
    const { describeReal } = await import(${JSON.stringify(import.meta.resolve('../support/real-parts.ts'))});
    await describeReal('suite on etcd', ['etcd'], () => {});`;

  test.for([
    ['skips loudly on a desk without the part', '', 0, /SKIPPED: suite "suite on etcd".*npm run servers -- etcd/s],
    ['fails there when CI is set', 'true', 1, /CI must run this suite.*npm run servers -- etcd/s],
  ] as const)('%s', { timeout: 60_000 }, async ([_name, ci, exitCode, output]) => {
    await using desk = await emptyDesk();
    await writeFile(`${desk.folder}/real.test.ts`, suite);
    const vitest = new URL('../../node_modules/vitest/vitest.mjs', import.meta.url).pathname;
    const ran = spawnSync(process.execPath, [vitest, 'run', '--root', desk.folder, '--passWithNoTests'], {
      encoding: 'utf8',
      env: { PATH: desk.bin, XDG_CACHE_HOME: desk.folder, CI: ci },
    });
    expect(ran.stdout + ran.stderr).toMatch(output);
    expect(ran.status).toBe(exitCode);
  });
});

interface Desk extends AsyncDisposable {
  readonly folder: string;
  readonly bin: string;
  readonly assets: string;
  script(file: string, body: string): Promise<void>;
  /** Puts a `go` on PATH whose build does `body` with $output set; returns a counter of its builds. */
  go(body: string): Promise<() => Promise<number>>;
}

/** A machine with nothing on PATH, in KUBEBUILDER_ASSETS or in the cache; undone by `unstubAllEnvs`. */
async function emptyDesk(): Promise<Desk> {
  const temporary = await mkdtempDisposable(`${tmpdir()}/wg-keepalive-desk-`);
  const folder = temporary.path;
  const [bin, assets] = [`${folder}/bin`, `${folder}/assets`];
  vi.stubEnv('PATH', bin);
  vi.stubEnv('KUBEBUILDER_ASSETS', assets);
  vi.stubEnv('XDG_CACHE_HOME', `${folder}/cache`);
  const script = async (file: string, body: string) => {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  };
  return {
    folder,
    bin,
    assets,
    script,
    go: async (body) => {
      const runsFile = `${folder}/go-runs`;
      await script(
        `${bin}/go`,
        `if [ "$1" = env ]; then echo the-proxy; echo; exit; fi
echo run >> ${runsFile}
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then output=$2; fi; shift; done
${body}`,
      );
      return async () => (await readFile(runsFile, 'utf8')).trim().split('\n').length;
    },
    [Symbol.asyncDispose]: () => temporary.remove(),
  };
}
