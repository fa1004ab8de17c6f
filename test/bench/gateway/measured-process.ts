import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createInterface, type Interface } from 'node:readline';
import type { NetworkNamespace } from '../../../infra/lab/network-namespace.ts';

/** A process of the bench: tells on SIGUSR2 how many PONGs it has received, and at its end what it has measured. */
export class MeasuredProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #closed: Promise<unknown>;
  #lastLine = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    this.#lines.on('line', (line) => {
      this.#lastLine = line;
    });
    this.#closed = once(this.#lines, 'close');
  }

  /** @throws Error if it ends before it says that it is ready */
  static async start(namespace: NetworkNamespace, program: string, argv: readonly string[]): Promise<MeasuredProcess> {
    const { command, args } = namespace.commandLine(program, argv);
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const started = new MeasuredProcess(child);
    for await (const line of createInterface({ input: child.stderr as NodeJS.ReadableStream })) {
      if (line === 'ready') {
        child.stderr?.resume();
        return started;
      }
      process.stderr.write(`${line}\n`);
    }
    throw new Error(`${program} ended before it was ready`);
  }

  /** PONGs received so far, and the CPU time of all its threads so far. */
  async sample(): Promise<{ readonly received: number; readonly cpuMs: number }> {
    const answer = once(this.#lines, 'line');
    this.#child.kill('SIGUSR2');
    const [line] = (await Promise.race([answer, this.#closed])) as [string?];
    if (line === undefined) throw new Error(`${this.#child.spawnargs.join(' ')}: it has ended`);
    return { received: (JSON.parse(line) as { received: number }).received, cpuMs: await this.cpuMs() };
  }

  /** @see https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat */
  async cpuMs(): Promise<number> {
    const folder = `/proc/${this.#child.pid}/task`;
    let sumNs = 0;
    for (const thread of await readdir(folder)) {
      sumNs += Number((await readFile(`${folder}/${thread}/schedstat`, 'utf8')).split(' ')[0]);
    }
    return sumNs / 1e6;
  }

  async residentMib(): Promise<number> {
    const status = await readFile(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1_024;
  }

  /** What it says last, once it ends: by itself, or because it is told to. */
  async ended<Report>(signal?: 'SIGTERM'): Promise<Report> {
    if (signal !== undefined) this.#child.kill(signal);
    await this.#closed;
    return JSON.parse(this.#lastLine) as Report;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#closed;
  }
}
