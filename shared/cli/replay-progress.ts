import type { RecordedMessage } from '../domain/recorded-message.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import type { Clock } from '../ports/clock.ts';

const FIRST_AFTER_MS = 2_000;
const EVERY_MS = 1_000;

/** A line on stderr once a second while a long work goes on; on a terminal it stays one line. */
export class ReplayProgress {
  readonly #clock: Clock;
  readonly #stream: NodeJS.WriteStream;
  readonly #startedMs: number;
  #nextMs: number;
  #events = 0;
  #isShown = false;

  constructor(clock: Clock, stream: NodeJS.WriteStream = process.stderr) {
    this.#clock = clock;
    this.#stream = stream;
    this.#startedMs = clock.monotonicMs();
    this.#nextMs = this.#startedMs + FIRST_AFTER_MS;
  }

  took(batch: readonly RecordedMessage[]): void {
    this.#events += batch.length;
    const last = batch.at(-1);
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#nextMs || last === undefined) return;
    this.#nextMs = nowMs + EVERY_MS;
    const rate = Math.round((this.#events / (nowMs - this.#startedMs)) * 1e3);
    const text = `${this.#events} events, at #${last.sequence} ${formatRfc3339Ms(last.storedAtUnixMs)}, ${rate} events/s`;
    this.#stream.write(this.#stream.isTTY ? `\r${text}\x1b[K` : `${text}\n`);
    this.#isShown = true;
  }

  end(): void {
    if (this.#isShown && this.#stream.isTTY) this.#stream.write('\r\x1b[K');
  }
}
