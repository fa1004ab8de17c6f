import { execFile } from 'node:child_process';
import { copyFile, cp, glob, mkdir, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, sep } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** A file that breaks a rule of its room, and a twin that does the same thing as the room allows it. */
type Planted = {
  readonly room: string;
  readonly rule: string;
  readonly file: string;
  readonly violation: string;
  readonly twin: string;
};

const planted: readonly Planted[] = [
  {
    room: 'domain: no Node',
    rule: 'noRestrictedImports',
    file: 'shared/domain/planted.ts',
    violation: "import { readFileSync } from 'node:fs';\nexport const it = readFileSync;\n",
    twin: "import { connectionKey } from './connection.ts';\nexport const it = connectionKey;\n",
  },
  {
    room: 'domain: no packages',
    rule: 'noRestrictedImports',
    file: 'shared/domain/planted.ts',
    violation: "import { pino } from 'pino';\nexport const it = pino;\n",
    twin: "import type { Connection } from './connection.ts';\nexport type It = Connection;\n",
  },
  {
    room: 'domain: no ports',
    rule: 'noRestrictedImports',
    file: 'shared/domain/planted.ts',
    violation: "import type { Clock } from '../ports/clock.ts';\nexport type It = Clock;\n",
    twin: "import type { Latency } from './connection.ts';\nexport type It = Latency;\n",
  },
  {
    room: 'domain: no ports, by a detour',
    rule: 'noRestrictedImports',
    file: 'shared/domain/planted.ts',
    violation: "import type { Clock } from './../ports/clock.ts';\nexport type It = Clock;\n",
    twin: "import type { Latency } from './connection.ts';\nexport type It = Latency;\n",
  },
  {
    room: 'domain: no packages, when it is called',
    rule: 'noRestrictedImports',
    file: 'shared/domain/planted.ts',
    violation: "export const it = () => import('nats');\n",
    twin: "export const it = () => import('./connection.ts');\n",
  },
  {
    room: 'domain: no Math.random()',
    rule: 'plugin',
    file: 'shared/domain/planted.ts',
    violation: 'export const it = () => Math.random();\n',
    twin: 'export const it = (random: () => number) => Math.max(random(), 0);\n',
  },
  ...(
    ['Date.now()', 'globalThis.setTimeout', 'performance.now()', 'process.env.HOME', 'crypto.randomUUID()'] as const
  ).map((ambient) => ({
    room: `domain: no ${ambient}`,
    rule: 'noRestrictedGlobals',
    file: 'shared/domain/planted.ts',
    violation: `export const it = () => ${ambient};\n`,
    twin: 'export const it = (given: unknown) => given;\n',
  })),
  {
    room: 'ports: no packages',
    rule: 'noRestrictedImports',
    file: 'shared/ports/planted.ts',
    violation: "import type { NatsConnection } from 'nats';\nexport type It = NatsConnection;\n",
    twin: "import type { BusMessage } from '../domain/cloud-event.ts';\nexport type It = BusMessage;\n",
  },
  {
    room: 'runtime: no adapters',
    rule: 'noRestrictedImports',
    file: 'shared/runtime/planted.ts',
    violation: "import { systemClock } from '../adapters/system-clock.ts';\nexport const it = systemClock;\n",
    twin: "import type { Clock } from '../ports/clock.ts';\nexport type It = Clock;\n",
  },
  {
    room: 'runtime: no client libraries',
    rule: 'noRestrictedImports',
    file: 'shared/runtime/planted.ts',
    violation: "import { connect } from 'nats';\nexport const it = connect;\n",
    twin: "import { pino } from 'pino';\nexport const it = pino;\n",
  },
  {
    room: 'adapters: no functions',
    rule: 'noRestrictedImports',
    file: 'shared/adapters/planted.ts',
    violation: "import { catalog } from '../../functions/catalog.ts';\nexport const it = catalog;\n",
    twin: "import { connect } from 'nats';\nexport const it = connect;\n",
  },
  {
    room: 'adapters: no runtime',
    rule: 'noRestrictedImports',
    file: 'shared/adapters/planted.ts',
    violation: "import { runFunction } from '../runtime/run-function.ts';\nexport const it = runFunction;\n",
    twin: "import type { EventBus } from '../ports/event-bus.ts';\nexport type It = EventBus;\n",
  },
  {
    room: 'a function: no other function',
    rule: 'noRestrictedImports',
    file: 'functions/planted/handler.ts',
    violation: "import { handler } from '../tunnel-status/handler.ts';\nexport const it = handler;\n",
    twin: "import { handler } from './manifest.ts';\nexport const it = handler;\n",
  },
  {
    room: 'a function: no adapters',
    rule: 'noRestrictedImports',
    file: 'functions/planted/handler.ts',
    violation: "import { systemClock } from '../../shared/adapters/system-clock.ts';\nexport const it = systemClock;\n",
    twin: "import type { Clock } from '../../shared/ports/clock.ts';\nexport type It = Clock;\n",
  },
  {
    room: 'a function: no Node',
    rule: 'noRestrictedImports',
    file: 'functions/planted/handler.ts',
    violation: "import { readFileSync } from 'node:fs';\nexport const it = readFileSync;\n",
    twin: "import { connectionKey } from '../../shared/domain/connection.ts';\nexport const it = connectionKey;\n",
  },
  {
    room: 'the command line: no lab',
    rule: 'noRestrictedImports',
    file: 'shared/cli/commands/planted.ts',
    violation:
      "import { startEmbeddedLab } from '../../../infra/lab/embedded-lab.ts';\nexport const it = startEmbeddedLab;\n",
    twin: "import { systemClock } from '../../adapters/system-clock.ts';\nexport const it = systemClock;\n",
  },
  {
    room: 'the command line: no lab, when it is called',
    rule: 'noRestrictedImports',
    file: 'shared/cli/planted.ts',
    violation: "export const it = () => import('../../infra/lab/lab-command.ts');\n",
    twin: "export const it = () => import('./commands/gateway.ts');\n",
  },
  {
    room: 'real servers: no lab',
    rule: 'noRestrictedImports',
    file: 'infra/servers/planted.ts',
    violation: "import { runCommand } from '../lab/network-namespace.ts';\nexport const it = runCommand;\n",
    twin: "import { systemClock } from '../../shared/adapters/system-clock.ts';\nexport const it = systemClock;\n",
  },
  {
    room: 'everywhere: no barrels',
    rule: 'noBarrelFile',
    file: 'shared/adapters/planted.ts',
    violation: "export * from './system-clock.ts';\n",
    twin: 'export const it = 1;\n',
  },
  {
    room: 'everywhere: no enums',
    rule: 'noEnum',
    file: 'infra/lab/planted.ts',
    violation: 'export enum Value {\n  Connected = 1,\n}\n',
    twin: "export type Value = 'Connected';\n",
  },
  {
    room: 'everywhere: no parameter properties',
    rule: 'noParameterProperties',
    file: 'shared/cli/planted.ts',
    violation: 'export class It {\n  constructor(readonly value: number) {}\n}\n',
    twin: 'export class It {\n  readonly value = 1;\n}\n',
  },
  {
    room: 'everywhere: kebab-case file names',
    rule: 'useFilenamingConvention',
    file: 'shared/cli/plantedFile.ts',
    violation: 'export const it = 1;\n',
    twin: 'export const it = 1;\n',
  },
];

const twinFile = (file: string) => file.replace('plantedFile', 'planted-file');

/** Rules that Biome reports for one file in a folder with the project's own biome.json. */
async function lint(file: string, source: string): Promise<readonly string[]> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-rooms-'));
  await copyFile(join(root, 'biome.json'), join(folder.path, 'biome.json'));
  await cp(join(root, 'infra/lint'), join(folder.path, 'infra/lint'), { recursive: true });
  await mkdir(join(folder.path, dirname(file)), { recursive: true });
  await writeFile(join(folder.path, file), source);
  const biome = join(root, 'node_modules/.bin/biome');
  const args = ['lint', '--vcs-enabled=false', '--reporter=json', '--error-on-warnings', file];
  const output = await new Promise<string>((resolve) => {
    execFile(biome, args, { cwd: folder.path }, (_error, stdout) => resolve(stdout));
  });
  const { diagnostics } = JSON.parse(output) as { readonly diagnostics: readonly { readonly category: string }[] };
  return diagnostics.map(({ category }) => category.split('/').at(-1) ?? category);
}

/** Puts the program together, so it alone may know both the command line and what is built on it. */
const PROGRAM = 'shared/cli/dispatch.ts';

/** `shared/domain`, `infra/lab`; all functions are one. */
function roomOf(file: string): string {
  const [area = '', room = ''] = file.split(sep);
  return area === 'functions' ? area : `${area}/${room}`;
}

/** Which rooms import which, as `from → to`. */
async function arrows(): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for await (const file of glob('{functions,shared,infra}/**/*.ts', { cwd: root })) {
    if (file === PROGRAM) continue;
    const source = await readFile(join(root, file), 'utf8');
    for (const [, path = ''] of source.matchAll(/(?:from|import\()\s*'(\.[^']+\.ts)'/g)) {
      const [from, to] = [roomOf(file), roomOf(join(dirname(file), path))];
      if (from !== to) found.add(`${from} → ${to}`);
    }
  }
  return found;
}

/** Those that are left when rooms that import nothing any more are taken away, one after another. */
function withoutEnd(all: ReadonlySet<string>): readonly string[] {
  let left = [...all];
  for (;;) {
    const importing = new Set(left.map((arrow) => arrow.split(' → ')[0]));
    const next = left.filter((arrow) => importing.has(arrow.split(' → ')[1]));
    if (next.length === left.length) return left;
    left = next;
  }
}

describe('the arrows between the rooms', () => {
  it('point one way', async () => {
    const all = await arrows();
    expect(all).toContain('shared/cli → shared/domain');
    expect(withoutEnd(all)).toEqual([]);
  });

  it('would show two rooms that know each other', () => {
    const mutual = ['infra/lab → shared/cli', 'shared/cli → infra/lab'];
    expect(withoutEnd(new Set([...mutual, 'infra/lab → shared/domain']))).toEqual(mutual);
  });
});

describe('the walls between the rooms', () => {
  it.each(planted)('$room', async ({ rule, file, violation, twin }) => {
    expect(await lint(file, violation)).toContain(rule);
    expect(await lint(twinFile(file), twin)).toEqual([]);
  });
});
