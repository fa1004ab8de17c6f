import { execFile } from 'node:child_process';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'rolldown';
import { NetworkNamespace, runCommand } from '../../../infra/lab/network-namespace.ts';
import { derivedTunnel, MAX_TUNNELS } from '../../../shared/domain/tunnel-interface.ts';

/** Side 1 has the first address of each /30, side 2 the second. */
export type Side = 1 | 2;

export type BenchNetwork = {
  readonly namespaces: Readonly<Record<Side, NetworkNamespace>>;
  /** The C floor, built. */
  readonly floor: string;
  /** The gateway, bundled as it is published: reading TypeScript would cost time and memory of its own. */
  readonly subject: string;
  readonly folder: string;
  close(): Promise<void>;
};

/** Two namespaces, one veth between them, the addresses of 64 tunnels on it. */
export async function openBenchNetwork(): Promise<BenchNetwork> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-bench-')));
  const floor = join(folder, 'floor');
  await promisify(execFile)('cc', ['-O2', '-o', floor, join(import.meta.dirname, 'floor.c')]);
  const subject = await bundleSubject(folder);
  const first = stack.use(await NetworkNamespace.open('1', join(folder, 'namespace-1.log')));
  const second = stack.use(await NetworkNamespace.open('2', join(folder, 'namespace-2.log')));
  const ends = [
    'name',
    'bench',
    'netns',
    `${first.pid}`,
    'type',
    'veth',
    'peer',
    'name',
    'bench',
    'netns',
    `${second.pid}`,
  ];
  await runCommand({ command: 'ip', args: ['link', 'add', ...ends] });
  for (const [namespace, mode] of [
    [first, 'server'],
    [second, 'client'],
  ] as const) {
    const addresses = Array.from({ length: MAX_TUNNELS }, (_, index) => derivedTunnel(index, mode).local);
    const commands = [...addresses.map((address) => `address add ${address}/30 dev bench`), 'link set bench up'];
    await namespace.exec('ip', ['-batch', '-'], commands.join('\n'));
  }
  const opened = stack.move();
  return {
    ...{ namespaces: { 1: first, 2: second }, floor, subject, folder },
    close: () => opened.disposeAsync(),
  };
}

async function bundleSubject(folder: string): Promise<string> {
  await build({
    input: {
      subject: join(import.meta.dirname, 'subject-process.ts'),
      'engine-main': join(import.meta.dirname, '../../../shared/cli/engine-main.ts'),
    },
    platform: 'node',
    external: [/^node:/],
    output: { dir: folder, format: 'esm', entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' },
    logLevel: 'silent',
  });
  return join(folder, 'subject.mjs');
}
