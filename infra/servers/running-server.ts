import { rm } from 'node:fs/promises';
import { type ProcessSpec, type ServerProcess, startProcess, stopProcess, waitUntilReady } from './process.ts';

/** How a server is started, and when it counts as ready. */
export type ServerSpec = ProcessSpec & {
  /** Returns something as soon as the server serves, undefined until then; a throw counts as not yet. */
  readonly probe: (signal: AbortSignal) => Promise<true | undefined>;
  /** @defaultValue 30 s: machines under load are slow, and a dead process is noticed at once anyway */
  readonly readyTimeoutMs?: number;
};

const DEFAULT_READY_TIMEOUT_MS = 30_000;
const PROBE_TIMEOUT_MS = 2_000;

/**
 * A server that can be stopped, killed and started again with the same arguments, hence the same ports and data.
 * `await using` ends it and removes what it was given to remove.
 */
export class RunningServer implements AsyncDisposable {
  readonly #spec: ServerSpec;
  readonly #folder: string;
  #process: ServerProcess;
  #isDisposed = false;

  private constructor(spec: ServerSpec, folder: string, first: ServerProcess) {
    this.#spec = spec;
    this.#folder = folder;
    this.#process = first;
  }

  /**
   * Starts the server and waits until it is ready.
   *
   * @param folder - removed on dispose
   * @throws NotReadyError, with the end of the log, if it ends or stays silent; the process is gone by then
   */
  static async start(spec: ServerSpec, folder: string): Promise<RunningServer> {
    const first = await startProcess(spec);
    await untilReady(spec, first);
    return new RunningServer(spec, folder, first);
  }

  /** Process id of the present run (of the last one while stopped). */
  get pid(): number {
    return this.#process.pid;
  }

  get isRunning(): boolean {
    return this.#process.exit() === undefined;
  }

  /** The last lines of the log of all runs. */
  logTail(lines?: number): Promise<string> {
    return this.#process.logTail(lines);
  }

  /** SIGTERM, then SIGKILL after ten seconds; ports and data stay reserved for {@link restart}. */
  async stop(): Promise<void> {
    await stopProcess(this.#process);
  }

  /** Sends a signal (SIGKILL unless told); after SIGKILL it returns when the process is gone, after another one at once. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#process.signal(signal);
    if (signal === 'SIGKILL') await this.#process.exited;
  }

  /**
   * Stops it, if it still runs, and starts it again on the same ports and data.
   *
   * @throws NotReadyError as on the first start, and where it is disposed of meanwhile
   */
  async restart(): Promise<void> {
    await this.stop();
    if (this.#isDisposed) return;
    this.#process = await startProcess(this.#spec); // from here on a dispose ends it, ready or not
    if (this.#isDisposed) await this.kill();
    await untilReady(this.#spec, this.#process);
  }

  /** Ends it at once: its data go with it, so it has nothing to flush. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function untilReady(spec: ServerSpec, started: ServerProcess): Promise<void> {
  try {
    await waitUntilReady(started, () => spec.probe(AbortSignal.timeout(PROBE_TIMEOUT_MS)), {
      timeoutMs: spec.readyTimeoutMs ?? DEFAULT_READY_TIMEOUT_MS,
    });
  } catch (error) {
    await stopProcess(started);
    throw error;
  }
}
