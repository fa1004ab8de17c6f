import type { ServerResponse } from 'node:http';
import type { Clock, Timer } from '../ports/clock.ts';
import type { PageSource } from '../ports/page-source.ts';

/** How often a page is told of what has changed. */
const TICK_MS = 250;
/** A page that hears nothing for a few of these knows that something is wrong. */
const BEAT_EVERY_MS = 2_000;
/** A page that does not read for so long is let go; it connects again by itself. */
const BLOCKED_LIMIT_MS = 30_000;

type Client = { readonly response: ServerResponse; revision: number; toldAtMs: number };

/**
 * Pages that listen (server-sent events). Each is told what has changed since it was told last. One that reads slowly is
 * left out until its buffer is empty and gets the newest state then: nothing piles up for it.
 */
export class PageClients {
  readonly #source: PageSource;
  readonly #clock: Clock;
  readonly #clients = new Set<Client>();
  #timer: Timer | undefined;

  constructor(source: PageSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
  }

  get size(): number {
    return this.#clients.size;
  }

  add(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', connection: 'close' });
    const client = { response, revision: 0, toldAtMs: this.#clock.monotonicMs() };
    this.#clients.add(client);
    response.on('close', () => {
      this.#clients.delete(client);
      if (this.#clients.size === 0) this.#stop();
    });
    this.#tell(client);
    this.#timer ??= this.#clock.after(TICK_MS, () => this.#tick());
  }

  close(): void {
    this.#stop();
    for (const { response } of this.#clients) response.destroy();
    this.#clients.clear();
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #tick(): void {
    this.#timer = this.#clock.after(TICK_MS, () => this.#tick());
    for (const client of this.#clients) this.#tell(client);
  }

  #tell(client: Client): void {
    const { response, toldAtMs } = client;
    const silentMs = this.#clock.monotonicMs() - toldAtMs;
    if (response.writableLength > 0) {
      if (silentMs > BLOCKED_LIMIT_MS) response.destroy();
      return;
    }
    const patch = this.#source.since(client.revision);
    const isNew = patch.revision !== client.revision || patch.reset === true;
    if (!isNew && silentMs < BEAT_EVERY_MS) return;
    // What has a name or a newline in it is data: JSON keeps it in one line.
    response.write(isNew ? `event: patch\ndata: ${JSON.stringify(patch)}\n\n` : 'event: beat\ndata: {}\n\n');
    client.revision = patch.revision;
    client.toldAtMs = this.#clock.monotonicMs();
  }
}
