import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { acquireLock } from './build-lock.ts';
import { type BuildReporter, reportToStderr } from './build-progress.ts';
import type { ServerPart } from './catalog.ts';
import { findOnPath, isExecutable } from './process.ts';

/** A build that failed; the message holds what Go said last and what to do about it. */
export class BuildError extends Error {
  readonly code = 'SERVER_BUILD_FAILED';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'BuildError';
  }
}

const PROGRESS_EVERY_MS = 1_000;
const KEPT_LINES = 12;
/** What `go build -v` prints for each package that it compiles. */
const PACKAGE_PATTERN = /^[\w.-]+(\/\S+)?$/;
/** How Go's own lines look when modules cannot be had. */
const NETWORK_PATTERN =
  /dial tcp|: lookup |i\/o timeout|TLS handshake|x509: |proxyconnect|connection re(fused|set)|: (40[347]|410|50[0-4]) /;

/** Where a part's own build is kept: outside the tree, one folder for each set of sources, flags and machine type. */
export async function cachedBinary(part: ServerPart): Promise<string> {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum']) hash.update(await readFile(`${part.folder}/${file}`));
  hash.update(`${part.linkerFlags} ${process.platform} ${process.arch}`);
  const cache = process.env.XDG_CACHE_HOME || `${homedir()}/.cache`;
  return `${cache}/wg-keepalive/servers/${part.name}-${part.version}-${hash.digest('hex').slice(0, 12)}/${part.name}`;
}

/**
 * Builds a part into the cache and returns the path of its binary; does nothing if it is there.
 * Two processes never build the same part at once: the second waits for the first.
 *
 * @throws BuildError if Go is missing, too old, or fails
 */
export async function buildServer(part: ServerPart, report: BuildReporter = reportToStderr()): Promise<string> {
  const binary = await cachedBinary(part);
  if (await isExecutable(binary)) return binary;
  await mkdir(dirname(binary), { recursive: true });
  const startedMs = performance.now();
  const tell = (detail: string, done = false) =>
    report({ part, elapsedMs: performance.now() - startedMs, detail, done });
  await using lock = await acquireLock(`${binary}.lock`, async ({ pid }) => {
    tell(`waiting for process ${pid}, which builds it`);
    return isExecutable(binary);
  });
  if (lock === undefined || (await isExecutable(binary))) {
    tell(`built meanwhile by another process: ${binary}`, true);
    return binary;
  }
  const unfinished = `${binary}.${process.pid}`;
  try {
    await runGo(part, unfinished, tell);
    await rename(unfinished, binary); // atomic: nobody ever starts half a binary
  } catch (error) {
    tell('failed', true);
    throw error;
  } finally {
    await rm(unfinished, { force: true });
  }
  tell(`built: ${binary}`, true);
  return binary;
}

async function runGo(part: ServerPart, output: string, tell: (detail: string) => void): Promise<void> {
  const go = await findOnPath('go');
  if (go === undefined) throw new BuildError(`${part.name} cannot be built: no "go" on PATH. ${installGo(part)}`);
  const child = spawn(
    go,
    ['build', '-C', part.folder, '-v', '-trimpath', '-ldflags', part.linkerFlags, '-o', output, part.package],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, CGO_ENABLED: '0', GOWORK: 'off' } },
  );
  const killChild = () => child.kill();
  process.once('exit', killChild);
  const lines: string[] = [];
  let packages = 0;
  let doing = 'starting go';
  createInterface(child.stderr).on('line', (line) => {
    if (PACKAGE_PATTERN.test(line)) {
      doing = `${++packages} packages compiled, now ${line}`;
      return;
    }
    doing = line.replace(/^go: /, '');
    lines.push(line);
    if (lines.length > KEPT_LINES) lines.shift();
  });
  const ticker = setInterval(() => tell(doing), PROGRESS_EVERY_MS);
  try {
    const code = await new Promise<number | null>((resolve, reject) =>
      child.once('error', reject).once('close', resolve),
    );
    if (code !== 0) throw new BuildError(await explain(part, go, code, lines));
  } finally {
    clearInterval(ticker);
    process.off('exit', killChild);
  }
}

async function explain(part: ServerPart, go: string, code: number | null, lines: readonly string[]): Promise<string> {
  const output = lines.join('\n');
  return [
    `${part.name} ${part.version} could not be built: go ended with ${code === null ? 'a signal' : `exit code ${code}`}. Its last lines:`,
    ...lines.map((line) => `  ${line}`),
    await whatToDo(part, go, output),
  ].join('\n');
}

async function whatToDo(part: ServerPart, go: string, output: string): Promise<string> {
  if (/requires go >=|toolchain not available|invalid go version/.test(output))
    return `Go is too old. ${installGo(part)}`;
  if (/no space left on device/.test(output))
    return 'The disk is full: Go needs about 4 GB in GOCACHE, GOMODCACHE and TMPDIR for kube-apiserver.';
  if (NETWORK_PATTERN.test(output)) {
    const { stdout } = await promisify(execFile)(go, ['env', 'GOPROXY', 'GOFLAGS']);
    const [proxy, flags] = stdout.split('\n');
    return `Go could not fetch modules. It needs a Go module proxy once: check GOPROXY (${proxy || 'unset'}), GOFLAGS (${flags || 'unset'}) and HTTPS_PROXY.`;
  }
  return `To see everything: cd ${part.folder} && go build ${part.package}`;
}

function installGo(part: ServerPart): string {
  return (
    `Install Go ${part.goVersion} or newer (apt-get install golang-go, if "apt-cache policy golang-go" shows one as new) and put its bin folder on PATH, ` +
    `or put ${part.name} ${part.version} on PATH or into the folder that KUBEBUILDER_ASSETS names.`
  );
}
