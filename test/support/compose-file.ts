import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '../..');

export type ComposeMount = {
  readonly type: 'volume' | 'bind';
  readonly source: string;
  readonly target: string;
  readonly read_only?: boolean;
};

export type ComposeService = {
  readonly image: string;
  readonly command: readonly string[] | null;
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly build?: { readonly target: string };
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly cap_add?: readonly string[];
  readonly cap_drop?: readonly string[];
  readonly devices?: readonly { readonly source: string }[];
  readonly ports?: readonly { readonly host_ip?: string; readonly published?: string }[];
  readonly volumes?: readonly ComposeMount[];
  readonly restart?: string;
  readonly container_name?: string;
  readonly network_mode?: string;
  readonly profiles?: readonly string[];
};

/** The compose file as Docker Compose reads it: anchors, defaults and interpolation done, everything checked. */
export async function loadCompose(): Promise<Readonly<Record<string, ComposeService>>> {
  const check = ['run', '-C', join(root, 'test/support/compose-check'), '.', join(root, 'docker-compose.yml')];
  const options = { env: { ...process.env, GOWORK: 'off' }, maxBuffer: 2 ** 24 };
  const { stdout } = await promisify(execFile)('go', check, options);
  return (JSON.parse(stdout) as { services: Record<string, ComposeService> }).services;
}

export type ImageStage = {
  readonly name: string;
  readonly base: string;
  /** Instructions, continued lines joined. */
  readonly lines: readonly string[];
};

/** The stages of the Dockerfile in their order, comments left out. */
export async function readStages(): Promise<readonly ImageStage[]> {
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

/** What a container of a stage starts with, inherited from the stage below where it says nothing itself. */
export function imageOf(stages: readonly ImageStage[], name: string) {
  const chain: ImageStage[] = [];
  for (let at = name; ; ) {
    const stage = stages.find((one) => one.name === at);
    if (stage === undefined) break;
    chain.push(stage);
    at = stage.base;
  }
  const last = (instruction: string) =>
    chain
      .map(({ lines }) => lines.findLast((line) => line.startsWith(`${instruction} `))?.slice(instruction.length + 1))
      .find((value) => value !== undefined);
  return {
    entrypoint: JSON.parse(last('ENTRYPOINT') ?? '[]') as readonly string[],
    user: last('USER'),
    folder: last('WORKDIR') ?? '/',
  };
}
