import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { access, constants, open } from 'node:fs/promises';
import { delimiter } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** How a process ended. */
export type Exit = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
};

/** A running (or ended) child process whose output goes to a file. */
export type ServerProcess = {
  readonly name: string;
  readonly pid: number;
  /** Settles when the process is gone; never rejects. */
  readonly exited: Promise<Exit>;
  /** How it ended; undefined while it runs. */
  readonly exit: () => Exit | undefined;
  /** Sends a signal; false if the process is gone. */
  readonly signal: (signal: NodeJS.Signals) => boolean;
  /** The last lines of its output, indented, for error messages. */
  readonly logTail: (lines?: number) => Promise<string>;
};

/** What to start. */
export type ProcessSpec = {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Output of every run is appended here: no pipe that a busy parent would have to drain. */
  readonly logFile: string;
  readonly env?: NodeJS.ProcessEnv;
};

/** Grace between SIGTERM and SIGKILL. */
const DEFAULT_STOP_TIMEOUT_MS = 10_000;

const LOG_TAIL_BYTES = 16_384;
const liveChildren = new Set<ChildProcess>();

process.on('exit', () => {
  for (const child of liveChildren) child.kill('SIGKILL');
});

/**
 * Starts a process that does not outlive this one.
 *
 * It gets a session of its own, so that Ctrl-C in a terminal reaches only the parent, which then stops its parts in order;
 * where `setpriv` exists (util-linux) the kernel kills it with the parent, else an exit hook does, SIGKILL excepted.
 *
 * @throws Error with code ENOENT or EACCES if the command cannot be run.
 */
export async function startProcess(spec: ProcessSpec): Promise<ServerProcess> {
  const setpriv = await findOnPath('setpriv');
  const [command, args] =
    setpriv === undefined
      ? [spec.command, [...spec.args]]
      : [setpriv, ['--pdeathsig', 'KILL', '--', spec.command, ...spec.args]];
  const log = openSync(spec.logFile, 'a');
  const child = spawn(command, args, {
    stdio: ['ignore', log, log],
    detached: setpriv !== undefined,
    ...(spec.env && { env: spec.env }),
  });
  closeSync(log);
  await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject));
  liveChildren.add(child);
  let ended: Exit | undefined;
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      liveChildren.delete(child);
      ended = { code, signal };
      resolve(ended);
    });
  });
  return {
    name: spec.name,
    pid: child.pid as number, // set, since it was spawned
    exited,
    exit: () => ended,
    signal: (signal) => child.kill(signal),
    logTail: (lines = 20) => tailOf(spec.logFile, lines),
  };
}

/** Ends a process: SIGTERM, then SIGKILL when the time is up. Returns at once if it is gone. */
export async function stopProcess(target: ServerProcess, timeoutMs = DEFAULT_STOP_TIMEOUT_MS): Promise<Exit> {
  target.signal('SIGTERM');
  target.signal('SIGCONT'); // a stopped process would hold the SIGTERM back
  const settled = new AbortController();
  const exit = await Promise.race([
    target.exited,
    sleep(timeoutMs, undefined, { signal: settled.signal, ref: true }).catch(() => undefined),
  ]);
  settled.abort();
  if (exit === undefined) target.signal('SIGKILL');
  return target.exited;
}

/** Thrown when a process ends, or its time is up, before it is ready. */
export class NotReadyError extends Error {
  readonly code = 'SERVER_NOT_READY';
  /** Whether another process holds one of its ports: worth another try on other ports. */
  readonly portInUse: boolean;

  constructor(name: string, why: string, log: string, cause?: unknown) {
    super(`${name} did not become ready: ${why}\n${log || '  (it printed nothing)'}`, { cause });
    this.name = 'NotReadyError';
    this.portInUse = /address already in use|another process has the port/i.test(log);
  }
}

/**
 * Polls until `probe` returns a value other than undefined.
 *
 * @throws NotReadyError if the process ends first or the deadline passes; it carries the end of the log and, as cause, what the last probe threw.
 */
export async function waitUntilReady<T>(
  target: ServerProcess,
  probe: () => Promise<T | undefined>,
  { timeoutMs, pollMs = 25 }: { readonly timeoutMs: number; readonly pollMs?: number },
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    const exit = target.exit();
    if (exit)
      throw new NotReadyError(
        target.name,
        `it ended with ${exit.signal ?? `exit code ${exit.code}`}`,
        await target.logTail(),
      );
    try {
      const value = await probe();
      if (value !== undefined) return value;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadlineMs)
      throw new NotReadyError(target.name, `no answer within ${timeoutMs} ms`, await target.logTail(), cause);
    await sleep(pollMs);
  }
}

/** Whether a process with this id exists; false for what is no process id. */
export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Full path of an executable on PATH, undefined if there is none. */
export async function findOnPath(name: string, path = process.env.PATH ?? ''): Promise<string | undefined> {
  for (const folder of path.split(delimiter).filter(Boolean)) {
    const file = `${folder}/${name}`;
    if (await isExecutable(file)) return file;
  }
  return undefined;
}

/** Whether the file exists and this user may execute it. */
export async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function tailOf(file: string, lines: number): Promise<string> {
  await using handle = await open(file);
  const { size } = await handle.stat();
  const length = Math.min(size, LOG_TAIL_BYTES);
  const { buffer } = await handle.read(Buffer.alloc(length), 0, length, size - length);
  return buffer
    .toString('utf8')
    .trimEnd()
    .split('\n')
    .slice(-lines)
    .filter(Boolean)
    .map((line) => `  ${line}`)
    .join('\n');
}
