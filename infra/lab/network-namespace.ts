import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { type ServerProcess, startProcess, stopProcess, waitUntilReady } from '../servers/process.ts';

/** What runs a program, for `spawn` and for `startProcess`. */
export type CommandLine = { readonly command: string; readonly args: readonly string[] };

/** For machines under load; what cannot start ends at once. */
const READY_TIMEOUT_MS = 20_000;
const COMMAND_TIMEOUT_MS = 20_000;

/**
 * Sets up the namespace and then only keeps it. WireGuard's control sockets are files named after the interface: each
 * namespace has a folder of its own for them, or two interfaces of one name would fight for one. `/sys` shows the
 * interfaces of the namespace that mounted it.
 */
const HOLDER_SCRIPT = [
  'set -e',
  'mkdir -p /var/run/wireguard',
  'mount -t tmpfs -o mode=0700 wg-keepalive /var/run/wireguard',
  'mount -t sysfs -o ro sysfs /sys || true',
  'ip link set lo up',
  'exec sleep infinity',
].join('\n');

/**
 * A network namespace without a name: a process holds it, and it is gone with its last process, veths included.
 * So nothing is left of a run that was killed, and the next one finds nothing in its way.
 */
export class NetworkNamespace implements AsyncDisposable {
  readonly #holder: ServerProcess;

  private constructor(holder: ServerProcess) {
    this.#holder = holder;
  }

  /** @throws NotReadyError with what the kernel refused, which it does without CAP_SYS_ADMIN */
  static async open(name: string, logFile: string): Promise<NetworkNamespace> {
    const holder = await startProcess({
      name: `network namespace ${name}`,
      command: 'unshare',
      args: ['--net', '--mount', '--propagation', 'private', 'sh', '-c', HOLDER_SCRIPT],
      logFile,
    });
    try {
      await waitUntilReady(holder, () => isHolding(holder.pid), { timeoutMs: READY_TIMEOUT_MS, pollMs: 10 });
    } catch (error) {
      await stopProcess(holder);
      throw error;
    }
    return new NetworkNamespace(holder);
  }

  /** Names the namespace to `ip link … netns PID`. */
  get pid(): number {
    return this.#holder.pid;
  }

  /**
   * The command line that runs a program in here. The program takes the place of the helpers: same pid, same signals.
   * The kernel ends it with the process that started it, so that it does not keep the namespace.
   */
  commandLine(command: string, args: readonly string[]): CommandLine {
    const enter = ['nsenter', '--target', `${this.pid}`, '--net', '--mount', '--'];
    return { command: 'setpriv', args: ['--pdeathsig', 'KILL', '--', ...enter, command, ...args] };
  }

  /**
   * Runs a program to its end.
   *
   * @returns its standard output
   * @throws Error with its standard error if it fails or takes too long
   */
  exec(command: string, args: readonly string[], input = ''): Promise<string> {
    return runCommand(this.commandLine(command, args), input);
  }

  /** Ends the holder; the namespace goes with the last process in it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await stopProcess(this.#holder);
  }
}

/** @throws Error with the command and what it printed, if it fails or takes too long */
export function runCommand({ command, args }: CommandLine, input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { timeout: COMMAND_TIMEOUT_MS, killSignal: 'SIGKILL' } as const;
    const child = execFile(command, [...args], options, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      const why = error.killed ? `no end after ${COMMAND_TIMEOUT_MS} ms` : stderr.trim() || error.message;
      reject(new Error(`${[command, ...args].join(' ')}: ${why}`, { cause: error }));
    });
    child.stdin?.on('error', () => {}); // it may end without reading
    child.stdin?.end(input);
  });
}

async function isHolding(pid: number): Promise<true | undefined> {
  return (await readFile(`/proc/${pid}/comm`, 'utf8')) === 'sleep\n' || undefined;
}
