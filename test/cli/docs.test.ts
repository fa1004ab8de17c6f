import { existsSync } from 'node:fs';
import { glob, readFile } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { COMMANDS } from '../../shared/cli/command-table.ts';
import { environmentVariableOf, OPTIONS, type OptionKey } from '../../shared/cli/options.ts';
import { METRICS } from '../../shared/domain/metrics.ts';

/** What the Markdown files say of the code is held against the code: a name that no longer exists fails here. */

const root = join(import.meta.dirname, '../..');

/** Flags of the scripts of package.json, which have no table. */
const SCRIPT_FLAGS = {
  simulate: ['seeds', 'from-seed'],
  bench: ['case', 'repeats', 'duration', 'json', 'resume', 'compare', 'write', 'from'],
  soak: ['duration', 'tunnels', 'replicas', 'seed', 'case', 'list'],
  test: ['project'],
} as const;
/** Flags of other programs that our text names by themselves, outside a command line of that program. */
const FOREIGN_FLAGS = new Set([
  'enable-connection-controller',
  'privileged',
  'device',
  'cap-add',
  'build-arg',
  'set',
  'help',
  'version',
  'flag',
]);
/** The function that CONTRIBUTING shows how to add; `test/system/add-a-function.test.ts` follows it. */
const EXAMPLE = 'slow-tunnels';
/** Programs of ours at the head of a command line; flags of any other program are its own business. */
const OURS = /^(?:sudo (?:--?\S+ )*)?(?:npx )?(wg-keepalive|npm (?:run )?(\S+))/;

type Page = { readonly file: string; readonly text: string };
/** A command line or a code span, with where it stands. */
type Code = { readonly at: string; readonly code: string };

const pages = await readPages();
const fencedLines = pages.flatMap(linesOfBlocks);
const spans = pages.flatMap(codeSpans);
const flags = new Set<string>(Object.values(OPTIONS).map(({ flag }) => flag));
const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
};

async function readPages(): Promise<Page[]> {
  const files = await Array.fromAsync(
    glob('{*.md,docs/**/*.md,infra/**/*.md,functions/**/*.md,test/**/*.md}', { cwd: root }),
  );
  return Promise.all(files.sort().map(async (file) => ({ file, text: await readFile(join(root, file), 'utf8') })));
}

/** Lines of shell blocks, fenced or indented, a line that ends in a backslash joined with the next; other fences are output. */
function linesOfBlocks({ file, text }: Page): Code[] {
  const joined = text.replace(/\\\n\s*/g, '');
  const fenced = [...joined.matchAll(/^```sh\n([\s\S]*?)^```/gm)].flatMap(([, block = '']) => block.split('\n'));
  const indented = joined.split('\n').filter((line) => line.startsWith('    '));
  return [...fenced, ...indented].map((line) => ({ at: file, code: line.trim().replace(/\s+#.*/, '') }));
}

function codeSpans({ file, text }: Page): Code[] {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '');
  return [...prose.matchAll(/`([^`]+)`/g)].map(([, code = '']) => ({ at: file, code: code.replaceAll('\n', ' ') }));
}

function flagsIn(code: string): string[] {
  return [...code.matchAll(/(?<![\w-])--([a-z][a-z0-9-]*)/g)].map(([, flag = '']) => flag);
}

/** What is wrong with a command line of ours. */
function faultsOf({ at, code }: Code): string[] {
  const [, program = '', script] = OURS.exec(code) ?? [];
  if (program === '') return [];
  const fault = (what: string) => `${at}: \`${code}\`: ${what}`;
  if (program === 'wg-keepalive') {
    const [, command = ''] = /wg-keepalive ([a-z]\S*)/.exec(code) ?? [];
    const isKnown = command === '' || Object.hasOwn(COMMANDS, command);
    const taken = new Set<string>(
      Object.hasOwn(COMMANDS, command)
        ? (COMMANDS[command as keyof typeof COMMANDS].options as readonly OptionKey[]).map((key) => OPTIONS[key].flag)
        : flags,
    );
    const unknown = flagsIn(code).filter((flag) => !taken.has(flag) && !['help', 'version'].includes(flag));
    return [
      ...(isKnown ? [] : [fault(`there is no command "${command}"`)]),
      ...unknown.map((flag) => fault(`${command} has no flag --${flag}`)),
    ];
  }
  if (code.startsWith('npm run') || ['start', 'test'].includes(script ?? '')) {
    if (!Object.hasOwn(scripts, script ?? '')) return [fault(`there is no script "${script}"`)];
    const own = code.includes(' -- ') ? flagsIn(code.slice(code.indexOf(' -- '))) : [];
    const taken =
      script === 'start' ? COMMANDS.lab.options.map((key) => OPTIONS[key].flag) : SCRIPT_FLAGS[script as 'test'];
    return own
      .filter((flag) => !(taken as readonly string[] | undefined)?.includes(flag))
      .map((flag) => fault(`${script} has no flag --${flag}`));
  }
  return [];
}

describe('the Markdown files', () => {
  it('are found, with what they say of the code', () => {
    expect(pages.map(({ file }) => file)).toEqual(
      expect.arrayContaining(['README.md', 'docs/options.md', 'CONTRIBUTING.md']),
    );
    expect(fencedLines.filter(({ code }) => OURS.test(code)).length).toBeGreaterThan(8);
    expect(spans.length).toBeGreaterThan(100);
  });

  it('show command lines that exist, with flags that these commands have', () => {
    expect([...fencedLines, ...spans].flatMap(faultsOf)).toEqual([]);
  });

  it('name no flag that nobody has', () => {
    const known = new Set<string>([...flags, ...Object.values(SCRIPT_FLAGS).flat(), ...FOREIGN_FLAGS]);
    const unknown = spans
      .filter(({ code }) => code.startsWith('--'))
      .flatMap(({ at, code }) => flagsIn(code).map((flag) => ({ at, flag })))
      .filter(({ flag }) => !known.has(flag));
    expect(unknown).toEqual([]);
  });

  it('name environment variables that are read', () => {
    const known = new Set((Object.keys(OPTIONS) as OptionKey[]).map(environmentVariableOf));
    const named = pages.flatMap(({ file, text }) =>
      [...text.matchAll(/WG_KEEPALIVE_[A-Z_]+/g)].map(([name]) => ({ file, name })),
    );
    expect(named.filter(({ name }) => !known.has(name))).toEqual([]);
  });

  it('name metrics that are exported', () => {
    const named = pages.flatMap(({ file, text }) =>
      [...text.matchAll(/\b(?:wg_keepalive|liqo_peer)_[a-z_]+[a-z]\b(?!\*)/g)].map(([name]) => ({ file, name })),
    );
    const base = (name: string) => name.replace(/_(bucket|sum|count)$/, '');
    const unknown = named.filter(({ name }) => !Object.hasOwn(METRICS, name) && !Object.hasOwn(METRICS, base(name)));
    expect(unknown).toEqual([]);
  });

  it('start functions that exist', () => {
    const functions = [...CATALOG.map(({ manifest }) => manifest.name), 'ping-sender', 'ping-receiver', 'all', EXAMPLE];
    const started = [...fencedLines, ...spans].flatMap(({ at, code }) => {
      const names = /wg-keepalive function ((?:[a-z][a-z-]* ?)+)/.exec(code)?.[1]?.trim().split(' ') ?? [];
      return names.map((name) => ({ at, name }));
    });
    expect(started.filter(({ name }) => !functions.includes(name))).toEqual([]);
  });

  it('link to files and headings that exist', async () => {
    const broken: string[] = [];
    for (const { file, text } of pages) {
      for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(target)) continue;
        const [path = '', heading] = target.split('#');
        const linked = path === '' ? file : normalize(join(dirname(file), path));
        if (!existsSync(join(root, linked))) broken.push(`${file}: ${target}: no such file`);
        else if (heading && !(await headingsOf(linked)).includes(heading))
          broken.push(`${file}: ${target}: no such heading`);
      }
    }
    expect(broken).toEqual([]);
  });

  it('name files of the tree that exist', () => {
    const rooms = /^(?:functions|shared|infra|test|docs)\/[\w./-]+$/;
    const named = spans.filter(({ code }) => rooms.test(code) && !code.includes(EXAMPLE));
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter(({ code }) => !existsSync(join(root, code)))).toEqual([]);
  });
});

/** As GitHub makes anchors of headings. */
async function headingsOf(file: string): Promise<string[]> {
  const text = await readFile(join(root, file), 'utf8');
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
