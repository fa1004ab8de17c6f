import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { buildServer, cachedBinary } from './builder.ts';
import { readPart, type ServerName, type ServerPart } from './catalog.ts';
import { findOnPath, isExecutable } from './process.ts';

/** Where a part was found. */
type ServerSource = 'KUBEBUILDER_ASSETS' | 'PATH' | 'cache';

/** A part that is ready to start. */
type FoundServer = {
  readonly path: string;
  readonly version: string;
  readonly source: ServerSource;
};

/** What a look round brought: the part, if there is one, and binaries passed over, each with the reason. */
export type ServerSearch = {
  readonly found?: FoundServer;
  readonly passedOver: readonly string[];
};

/** Neither found nor to be built: the message says why and what to do. */
class MissingServerError extends Error {
  readonly code = 'SERVER_MISSING';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'MissingServerError';
  }
}

const VERSION_TIMEOUT_MS = 10_000;

/** Looks for a part in `KUBEBUILDER_ASSETS`, on PATH and in the cache, in this order; builds nothing. */
export async function searchServer(name: ServerName): Promise<ServerSearch> {
  const part = await readPart(name);
  const passedOver: string[] = [];
  const assets = process.env.KUBEBUILDER_ASSETS;
  const candidates: readonly (readonly [ServerSource, string | undefined])[] = [
    ['KUBEBUILDER_ASSETS', assets ? await findOnPath(name, assets) : undefined],
    ['PATH', await findOnPath(name)],
  ];
  for (const [source, path] of candidates) {
    if (path === undefined) continue;
    const version = await versionOf(path, part);
    if (version !== undefined && servesFor(version, part.version))
      return { found: { path, version, source }, passedOver };
    passedOver.push(
      `${path} (${source}) ${version ? `is ${version}` : 'tells no version'}, ${part.version} or a later minor is needed`,
    );
  }
  const path = await cachedBinary(part);
  if (await isExecutable(path)) return { found: { path, version: part.version, source: 'cache' }, passedOver };
  return { passedOver };
}

/**
 * Path of a part's binary: found, else built if Go is on PATH (progress on stderr); undefined if there is neither.
 * A binary that is not our own build is named on stderr, once a process.
 *
 * @throws MissingServerError if a build fails
 */
export async function findServer(name: ServerName): Promise<string | undefined> {
  const { found, passedOver } = await searchServer(name);
  for (const line of passedOver) sayOnce(`${name}: ${line}`);
  if (found) {
    if (found.source !== 'cache') sayOnce(`${name} ${found.version}: ${found.path} (${found.source})`);
    return found.path;
  }
  if ((await findOnPath('go')) === undefined) return undefined;
  return buildServer(await readPart(name));
}

/**
 * As {@link findServer}, but its absence is an error.
 *
 * @throws MissingServerError that names the ways to get it
 */
export async function requireServer(name: ServerName): Promise<string> {
  const path = await findServer(name);
  if (path === undefined) throw new MissingServerError(howToGet(await readPart(name)));
  return path;
}

/** One paragraph for people: what is missing and the ways to get it. */
export function howToGet(part: ServerPart): string {
  return [
    `${part.name} ${part.version} is missing: not in KUBEBUILDER_ASSETS, on PATH or in the cache, and no "go" on PATH to build it.`,
    `  Either install Go ${part.goVersion} or newer, put its bin folder on PATH and run: npm run servers -- ${part.name}`,
    `  or put ${part.name} ${part.version} (or a later minor) on PATH or into the folder that KUBEBUILDER_ASSETS names.`,
  ].join('\n');
}

/** Same major, and the minor not older: what was measured still holds. */
function servesFor(version: string, needed: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [neededMajor = 0, neededMinor = 0] = needed.split('.').map(Number);
  return major === neededMajor && minor >= neededMinor;
}

async function versionOf(path: string, part: ServerPart): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await promisify(execFile)(path, [...part.versionArguments], {
      timeout: VERSION_TIMEOUT_MS,
    });
    return /\d+\.\d+\.\d+/.exec(stdout + stderr)?.[0];
  } catch {
    return undefined; // not runnable here (another architecture, a wrapper that fails): passed over, and said
  }
}

const said = new Set<string>();

function sayOnce(line: string): void {
  if (said.has(line)) return;
  said.add(line);
  process.stderr.write(`${line}\n`);
}
