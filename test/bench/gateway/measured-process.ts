import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createInterface, type Interface } from 'node:readline';
import type { NetworkNamespace } from '../../../infra/lab/network-namespace.ts';

/** A process of the bench: tells on SIGUSR2 how many PONGs it has received, and at its end what it has measured. */
export class MeasuredProcess {
  readonly child: ChildProcess;
  readonly #lines: Interface;
  readonly #ready: Promise<unknown>;

  constructor(namespace: NetworkNamespace, command: string, args: readonly string[], environment = {}) {
    const line = namespace.commandLine(command, args);
    this.child = spawn(line.command, line.args, {
      ...{ stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...environment } },
    });
    this.#lines = createInterface({ input: this.child.stdout as NodeJS.ReadableStream });
    const errors = createInterface({ input: this.child.stderr as NodeJS.ReadableStream });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#ready = promise;
    errors.on('line', (text) => {
      if (text === 'ready') resolve();
      else process.stderr.write(`${text}\n`);
    });
    this.child.once('exit', (code) => reject(new Error(`${command} ended with ${code} before it was ready`)));
    promise.catch(() => {});
  }

  ready(): Promise<unknown> {
    return this.#ready;
  }

  /** PONGs received so far, and the CPU time of all its threads so far. */
  async sample(): Promise<{ readonly received: number; readonly cpuMs: number }> {
    const answer = once(this.#lines, 'line');
    this.child.kill('SIGUSR2');
    const [text] = (await answer) as [string];
    return { received: (JSON.parse(text) as { received: number }).received, cpuMs: await this.cpuMs() };
  }

  async cpuMs(): Promise<number> {
    const folder = `/proc/${this.child.pid}/task`;
    let sumNs = 0;
    for (const thread of await readdir(folder)) {
      sumNs += Number((await readFile(`${folder}/${thread}/schedstat`, 'utf8')).split(' ')[0]);
    }
    return sumNs / 1e6;
  }

  async residentMib(): Promise<number> {
    const status = await readFile(`/proc/${this.child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1_024;
  }

  /** What it says last: by itself, or because it is told to end. */
  async end<Result>(signal?: 'SIGTERM'): Promise<Result> {
    let last = '';
    this.#lines.on('line', (text) => {
      last = text;
    });
    const closed = once(this.#lines, 'close');
    if (signal !== undefined) this.child.kill(signal);
    await closed;
    return JSON.parse(last) as Result;
  }
}
