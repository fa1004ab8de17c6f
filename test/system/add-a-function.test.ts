import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { describeReal } from '../support/real-parts.ts';
import { WgKeepalive } from '../support/wg-keepalive.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** What the text says to write: each block of code belongs to the path before it. */
function filesIn(text: string): ReadonlyMap<string, string> {
  const section = text.slice(text.indexOf('## How to add a function'));
  const blocks = section.matchAll(/`(functions\/[\w-]+\/[\w-]+\.ts)`[^`]*```ts\n(.*?)```/gs);
  return new Map([...blocks].map(([, path = '', code = '']) => [path, code]));
}

let copy: string;
const node = (...args: string[]) => run(process.execPath, args, { cwd: copy });

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'wg-keepalive-add-'));
  for (const part of ['functions', 'shared', 'infra', 'package.json', 'tsconfig.json', 'biome.json']) {
    await cp(join(ROOT, part), join(copy, part), { recursive: true });
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  for (const [path, code] of filesIn(await readFile(join(ROOT, 'CONTRIBUTING.md'), 'utf8'))) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await writeFile(join(copy, path), code);
  }
});
afterAll(() => rm(copy, { recursive: true, force: true }));

describe('a function that is added as CONTRIBUTING.md says', () => {
  it('is typed and written as the rest is', async () => {
    const bin = (name: string) => join(copy, 'node_modules/.bin', name);
    await writeFile(
      join(copy, 'tsconfig.added.json'),
      JSON.stringify({ extends: './tsconfig.json', include: ['functions/slow-tunnels'] }),
    );
    await run(bin('tsc'), ['-p', 'tsconfig.added.json'], { cwd: copy });
    await run(bin('biome'), ['check', '--vcs-enabled=false', 'functions/slow-tunnels'], { cwd: copy });
  });

  it('is known to the command, and to who makes NATS users, with rights of its own', async () => {
    await expect(node('shared/cli/main.ts', 'function', 'nobody')).rejects.toMatchObject({
      stderr: expect.stringContaining('slow-tunnels'),
    });
    const { stdout } = await node('infra/nats/make-users.ts', join(copy, 'users'));
    expect(stdout).toContain('function.slow-tunnels');
    const accounts = await readFile(join(copy, 'users/accounts.conf'), 'utf8');
    expect(accounts).toContain('"$JS.API.CONSUMER.MSG.NEXT.OBSERVATIONS.slow-tunnels"');
    expect(accounts).toContain('"dead.slow-tunnels"');
  });

  it('is in the bundle', async () => {
    await node(join(ROOT, 'node_modules/rolldown/bin/cli.mjs'), '-c', 'infra/bundle/rolldown.config.ts');
    await expect(node('dist/wg-keepalive.js', 'function', 'nobody')).rejects.toMatchObject({
      stderr: expect.stringContaining('slow-tunnels'),
    });
  });

  it('says what is wrong with a handler that defines nothing, or something of another name', async () => {
    const planted = join(copy, 'functions/slow-tunnels');
    const handler = await readFile(join(planted, 'handler.ts'), 'utf8');
    const manifest = await readFile(join(planted, 'manifest.ts'), 'utf8');
    await writeFile(join(planted, 'handler.ts'), 'export const nothing = 1;\n');
    await expect(node('shared/cli/main.ts', 'function', 'nobody')).rejects.toMatchObject({
      stderr: expect.stringContaining('functions/slow-tunnels/handler.ts exports no function'),
    });
    await writeFile(join(planted, 'handler.ts'), handler);
    await writeFile(join(planted, 'manifest.ts'), manifest.replace("name: 'slow-tunnels'", "name: 'slow-tunnel'"));
    await expect(node('shared/cli/main.ts', 'function', 'nobody')).rejects.toMatchObject({
      stderr: expect.stringContaining('the manifest\'s name is "slow-tunnel", want that of the folder'),
    });
    await writeFile(join(planted, 'manifest.ts'), manifest);
  });
});

await describeReal('that function on real parts', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  it('handles events: setup makes its consumer, its decisions are told, the rest is counted', async () => {
    await using parts = await FunctionsOnRealParts.start();
    const main = join(copy, 'shared/cli/main.ts');
    const env = { ...process.env, KUBECONFIG: parts.kubernetes.api.kubeconfig };
    const nats = `--nats-url=${parts.nats.url}`;
    const { stdout } = await run(process.execPath, [main, 'setup', nats], { cwd: copy, env });
    expect(stdout).toContain('OBSERVATIONS/slow-tunnels created');

    await using added = await WgKeepalive.start({
      ...{ main, env, folder: copy },
      args: ['function', 'slow-tunnels', nats],
    });
    await added.untilReady();
    await parts.startFunctions();
    const gateway = await parts.gateway();
    await gateway.pong(20);
    await gateway.pong(400);
    const told = () => parts.decisions.filter((decision) => decision.function === 'slow-tunnels');
    await eventually(() => told().length > 0, 'its decision');
    expect(told()).toMatchObject([
      { outcome: 'written', reason: 'Slow', interfaceId: 'liqo-tunnel', after: { rttNs: 400_000_000 } },
    ]);
    const labels = { function: 'slow-tunnels', outcome: 'throttled' };
    expect(await added.metric('wg_keepalive_events_total', labels)).toBeGreaterThanOrEqual(1);
    expect(await added.stop()).toEqual({ code: 0, signal: null });
  });
});
