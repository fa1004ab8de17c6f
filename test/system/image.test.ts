import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ImageStage, readStages } from '../support/compose-file.ts';

const root = join(import.meta.dirname, '../..');
const exec = promisify(execFile);

/** What no engine builds here: the image's own steps, done on this machine as far as they go without one. */
describe('the image', () => {
  const cleanUp = new AsyncDisposableStack();
  let app: string;
  let stages: readonly ImageStage[];
  const stageOf = (name: string) => stages.find((stage) => stage.name === name) as ImageStage;

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
    const last = stages.at(-1) as ImageStage;
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
