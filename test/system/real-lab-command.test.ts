import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { glob, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { describeReal } from '../support/real-parts.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const program = join(root, 'shared/cli/main.ts');
const children = new Set<ReturnType<typeof spawn>>();

afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

await describeReal(
  'wg-keepalive lab --parts real',
  ['root', 'netns', 'tun', 'wireguard-go', 'nft', 'nats-server', 'etcd', 'kube-apiserver'],
  () => {
    test('C36: killed again and again, it leaves no process and no interface, and starts anew to the same end', async () => {
      for (const stage of ['wireguard-go', 'kube-apiserver', 'main.ts gateway']) {
        const killed = lab('--ping-interval=200ms', '--tunnels=1');
        await eventually(
          async () => (await descendantsOf(killed.pid)).some(({ command }) => command.includes(stage)),
          stage,
          60_000,
        );
        const left = await descendantsOf(killed.pid);
        killed.child.kill('SIGKILL');
        await killed.ended;
        await eventually(async () => (await alive(left)).length === 0, `the end of ${left.length} processes`, 60_000);
      }
      const { ended, pid } = lab(
        '--json',
        '--log-level=error',
        '--scenario',
        join(root, 'infra/lab/scenarios/one-tunnel-cut.yaml'),
      );
      const { code, stdout, stderr } = await ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining('all 3 expectations were met') });
      const steps = stderr.split('\n').flatMap((line) => /^ *\d+\.\d s {2}(.*)$/.exec(line)?.[1] ?? []);
      expect(steps.filter((step) => !step.includes('; trying again'))).toEqual([
        'two network namespaces, 4 WireGuard tunnels',
        'nats-server, etcd, kube-apiserver',
        'CRDs, streams, consumers',
        'namespaces',
        '2 gateways, functions',
        'the lab runs',
      ]);
      const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
      expect(result).toMatchObject({
        connections: [
          { namespace: 'liqo-tenant-milan', name: 'gw-milan', status: { value: 'Connected' } },
          { namespace: 'liqo-tenant-rome', name: 'gw-rome', status: { value: 'Connected' } },
        ],
        scenario: { ok: true },
        unsent: 0,
      });
      expect(await descendantsOf(pid)).toEqual([]);
      const ofThisRun = await Array.fromAsync(glob(join(tmpdir(), `wg-keepalive-data-${pid}-*`)));
      expect(ofThisRun).toEqual([]);
    });

    test('without the right to make networks it ends at once and says why', async () => {
      const failure = await run('setpriv', [
        ...['--bounding-set', '-sys_admin,-net_admin', '--inh-caps', '-sys_admin,-net_admin'],
        ...[process.execPath, program, 'lab', '--parts=real'],
      ]).catch((error: unknown) => error);
      expect(failure).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/Operation not permitted[\s\S]*CAP_NET_ADMIN/),
      });
      expect(failure).not.toMatchObject({ stderr: expect.stringContaining('    at ') });
    });
  },
);

function lab(...args: readonly string[]) {
  const child = spawn(process.execPath, [program, 'lab', '--parts=real', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  const end = async () => {
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    return { stdout, stderr, code: code as number | null };
  };
  return { child, pid: child.pid as number, ended: end() };
}

type Process = { readonly pid: number; readonly parent: number; readonly startedAt: string; readonly command: string };

/** Every process below this one, by `/proc`. */
async function descendantsOf(pid: number): Promise<Process[]> {
  const all = await processes();
  const found = all.filter(({ parent }) => parent === pid);
  for (const { pid: parent } of found) found.push(...all.filter((process) => process.parent === parent));
  return found;
}

/** Those of them that still run: an id may by now be another's, a start time with it not. */
async function alive(earlier: readonly Process[]): Promise<Process[]> {
  const now = await processes();
  return earlier.filter(({ pid, startedAt }) =>
    now.some((process) => process.pid === pid && process.startedAt === startedAt),
  );
}

async function processes(): Promise<Process[]> {
  const files = await Array.fromAsync(glob('/proc/[0-9]*/stat'));
  const found = files.map(async (file) => {
    const readOrNothing = (name: string) => readFile(name, 'utf8').catch(() => ''); // it may be gone meanwhile
    const [, pid, rest = ''] = /^(\d+) \(.*\) (.*)$/s.exec(await readOrNothing(file)) ?? [];
    const [state, parent, ...fields] = rest.split(' ');
    if (pid === undefined || state === 'Z') return []; // a zombie is its new parent's to bury
    const command = (await readOrNothing(`/proc/${pid}/cmdline`)).replaceAll('\0', ' ');
    return [{ pid: Number(pid), parent: Number(parent), startedAt: fields[17] ?? '', command }];
  });
  return (await Promise.all(found)).flat();
}
