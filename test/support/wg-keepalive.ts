import { join } from 'node:path';
import { onFreePorts } from '../../infra/servers/free-port.ts';
import { type Exit, type ServerProcess, startProcess, stopProcess } from '../../infra/servers/process.ts';
import { eventually } from './eventually.ts';

const MAIN = join(import.meta.dirname, '../../shared/cli/main.ts');
/** A bound: a machine under load is slow. */
const READY_WITHIN_MS = 60_000;

export type ProgramOptions = {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Where its log goes. */
  readonly folder: string;
  /** @defaultValue the program of this checkout */
  readonly main?: string;
};

/** A long-running `wg-keepalive` command in a process of its own, with its health server on a free port. */
export class WgKeepalive implements AsyncDisposable {
  readonly #process: ServerProcess;
  readonly #health: string;

  private constructor(process: ServerProcess, port: number) {
    this.#process = process;
    this.#health = `http://127.0.0.1:${port}`;
  }

  /** Starts it and returns at once. */
  static start({ args, env, folder, main = MAIN }: ProgramOptions): Promise<WgKeepalive> {
    return onFreePorts(1, '127.0.0.1', async ([port = 0]) => {
      const name = `wg-keepalive ${args[0]} ${port}`;
      const flags = [`--metrics-bind-address=127.0.0.1:${port}`];
      const command = { command: process.execPath, args: [main, ...args, ...flags] };
      const logFile = join(folder, `${args[0]}-${port}.log`);
      return new WgKeepalive(await startProcess({ name, ...command, env, logFile }), port);
    });
  }

  get pid(): number {
    return this.#process.pid;
  }

  get exited(): Promise<Exit> {
    return this.#process.exited;
  }

  get isRunning(): boolean {
    return this.#process.exit() === undefined;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  /** SIGTERM, and how it ended. */
  stop(): Promise<Exit> {
    return stopProcess(this.#process);
  }

  logTail(lines?: number): Promise<string> {
    return this.#process.logTail(lines);
  }

  /** The lines of `/readyz`; `undefined` while nobody answers. */
  async readiness(): Promise<{ readonly isReady: boolean; readonly text: string } | undefined> {
    try {
      const response = await fetch(`${this.#health}/readyz`);
      return { isReady: response.ok, text: await response.text() };
    } catch {
      return undefined;
    }
  }

  /** @throws Error with the end of its log if it is not ready in time */
  async untilReady(withinMs = READY_WITHIN_MS): Promise<this> {
    let last = '';
    const isReady = async () => {
      const readiness = await this.readiness();
      last = readiness?.text ?? 'no answer';
      return readiness?.isReady ?? false;
    };
    await eventually(isReady, 'readiness', withinMs).catch(async (error: Error) => {
      throw new Error(`${error.message}: ${last}\n${await this.logTail()}`);
    });
    return this;
  }

  async isAlive(): Promise<boolean> {
    return (await fetch(`${this.#health}/healthz`)).ok;
  }

  /** The lines of `/healthz`. */
  async liveness(): Promise<string> {
    return (await fetch(`${this.#health}/healthz`)).text();
  }

  /** All that it exports. */
  async metrics(): Promise<string> {
    return (await fetch(`${this.#health}/metrics`)).text();
  }

  /** Sum of a metric's series that have all of these labels; 0 where there is none. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const text = await this.metrics();
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    return text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .filter((line) => wanted.every((part) => line.includes(part)))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal('SIGKILL');
    await this.exited;
  }
}
