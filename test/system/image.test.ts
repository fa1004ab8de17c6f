import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const exec = promisify(execFile);

type Stage = { readonly name: string; readonly base: string; readonly lines: readonly string[] };

/** The stages of the Dockerfile in their order, continued lines joined, comments left out. */
async function readStages(): Promise<readonly Stage[]> {
  const text = (await readFile(join(root, 'Dockerfile'), 'utf8')).replaceAll(/^#.*\n/gm, '').replaceAll('\\\n', ' ');
  return text
    .split(/^FROM /m)
    .slice(1)
    .map((stage) => {
      const [from = '', ...lines] = stage.split('\n').filter(Boolean);
      const [, base = '', name = ''] = /^(\S+) AS (\S+)$/.exec(from) ?? [];
      return { name, base, lines };
    });
}

/** What no engine builds here: the image's own steps, done on this machine as far as they go without one. */
describe('the image', () => {
  const cleanUp = new AsyncDisposableStack();
  let app: string;
  let stages: readonly Stage[];
  const stageOf = (name: string) => stages.find((stage) => stage.name === name) as Stage;

  beforeAll(async () => {
    stages = await readStages();
    const folder = cleanUp.use(await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-image-'))).path;
    const src = join(folder, 'src');
    app = join(folder, 'app');
    await exec('npx', ['rolldown', '-c', 'infra/bundle/rolldown.config.ts', '-d', join(src, 'dist')], { cwd: root });
    for (const path of ['package.json', 'LICENSE', 'infra/crds'])
      await cp(join(root, path), join(src, path), { recursive: true });
    for (const line of stageOf('program').lines) {
      const [, paths] = /^COPY --from=build (\/src\/.+)$/.exec(line) ?? [];
      if (paths === undefined) continue;
      const all = paths.split(' ').map((path) => path.replace(/^\/src/, src));
      const target = join(app, all.pop() ?? '');
      for (const path of all) {
        const to = paths.endsWith('/') ? join(target, path.slice(path.lastIndexOf('/'))) : target;
        await mkdir(dirname(to), { recursive: true });
        await cp(path, to, { recursive: true });
      }
    }
  });
  afterAll(() => cleanUp.disposeAsync());

  it('holds all that the program needs, and it starts', async () => {
    const program = join(app, 'dist/wg-keepalive.js');
    expect((await exec(process.execPath, [program, '--help'])).stdout).toContain('Usage: wg-keepalive COMMAND');
    for (const command of ['gateway', 'function', 'setup']) {
      expect((await exec(process.execPath, [program, command, '--help'])).stdout).toContain(`wg-keepalive ${command}`);
    }
    expect(await readFile(join(app, 'infra/crds/networking.liqo.io_connections.yaml'), 'utf8')).toContain(
      'interfaceID',
    );
  });

  it('ends in a stage that runs as nobody in particular, with the program as its entry point', () => {
    const last = stages.at(-1) as Stage;
    expect(last).toMatchObject({ name: 'runtime', base: 'program' });
    expect(last.lines).toContain('USER 65532:65532');
    expect(stageOf('program').lines).toContain('ENTRYPOINT ["node", "/app/dist/wg-keepalive.js"]');
  });

  it('names its base images by a full tag, and no other', async () => {
    const text = await readFile(join(root, 'Dockerfile'), 'utf8');
    const bases = Object.fromEntries([...text.matchAll(/^ARG (\w+)=(\S+)$/gm)].map(([, name, image]) => [name, image]));
    const { devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    expect(bases.NODE_IMAGE).toBe(`node:${devDependencies.node}-trixie-slim`);
    for (const { base } of stages) {
      const [, argument] = /^\$\{(\w+)\}$/.exec(base) ?? [];
      if (argument === undefined) expect(stages.map(({ name }) => name)).toContain(base);
      else expect(bases[argument]).toMatch(/^[a-z]+:[a-z0-9.-]+$/);
    }
  });
});
