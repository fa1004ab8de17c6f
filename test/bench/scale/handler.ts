import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { HandlerConfig, HandlerRequest, HandlerSample } from './handler-process.ts';

const program = fileURLToPath(new URL('handler-process.ts', import.meta.url));
const END_TIMEOUT_MS = 10_000;

/** A replica that was started, for whom wants to know how it fares. */
export class Handler implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Returns when it could begin; see {@link begin}. @throws Error if it ends before */
  static async start(config: HandlerConfig): Promise<Handler> {
    const child = fork(program, [JSON.stringify(config)], { execArgv: ['--expose-gc'] });
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`the handler ended with ${code} before it was ready`);
    });
    await Promise.race([once(child, 'message'), ended]);
    ended.catch(() => {});
    return new Handler(child);
  }

  /** Lets it consume. */
  begin(): void {
    this.#child.send('begin');
  }

  /** One at a time. */
  async sample(request: HandlerRequest = 'sample'): Promise<HandlerSample> {
    const answer = once(this.#child, 'message');
    this.#child.send(request);
    const [sample] = (await answer) as [HandlerSample];
    return sample;
  }

  /** Ends it in order; after {@link END_TIMEOUT_MS} by force. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), END_TIMEOUT_MS);
    this.#child.disconnect();
    await ended;
    clearTimeout(timer);
  }
}

export function handledBy({ outcomes }: HandlerSample): number {
  return Object.values(outcomes).reduce((sum, count) => sum + count, 0);
}
