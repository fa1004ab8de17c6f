import { once } from 'node:events';

/** Lines to stdout, in large pieces. Who reads them may go away (`| head`): then nothing is written any more. */
export class LineOutput {
  readonly #stream: NodeJS.WritableStream;
  #lines: string[] = [];
  #isGone = false;

  /** @param onGone - called once when nobody reads any more */
  constructor(stream: NodeJS.WritableStream, onGone: () => void = () => {}) {
    this.#stream = stream;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (!this.#isGone) onGone();
      this.#isGone = true;
    });
  }

  line(text: string): void {
    this.#lines.push(text);
  }

  /** Waits where the reader is slow, so that no more than a batch is ever held. */
  async flush(): Promise<void> {
    if (this.#lines.length === 0) return;
    const text = `${this.#lines.join('\n')}\n`;
    this.#lines = [];
    if (this.#isGone || this.#stream.write(text)) return;
    await Promise.race([once(this.#stream, 'drain'), once(this.#stream, 'close')]).catch(() => {});
  }
}
