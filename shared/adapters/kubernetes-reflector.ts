import type { IncomingMessage } from 'node:http';
import type { Change, ChangeKind } from '../domain/change.ts';
import { CONNECTION_API_VERSION } from '../domain/connection.ts';
import type { Clock } from '../ports/clock.ts';
import { StoreError } from '../ports/connection-store.ts';
import { asTold, KnownObjects, type WatchedObject } from './known-objects.ts';
import type { KubernetesClient } from './kubernetes-client.ts';

export type WatchTiming = {
  /** How long the API server is asked to keep one watch open. It ends with a bookmark, so each is proof of life. */
  readonly windowMs: number;
  /** How much longer than a window silence may last before the link counts as dead. */
  readonly graceMs: number;
  /** First pause after a fault; each further one doubles it, a random part of up to half is taken off. */
  readonly backOffMs: number;
  readonly maxBackOffMs: number;
};

export type ReflectorOptions = {
  readonly client: Pick<KubernetesClient, 'call' | 'open'>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly timing: WatchTiming;
  readonly kind: ChangeKind;
  /** All namespaces where there is none. */
  readonly namespace: string | undefined;
  /** The last change of each object that was told before. @defaultValue none */
  readonly told?: readonly Change[];
  /** Resolves when the change has been taken. */
  readonly tell: (change: Change) => Promise<void>;
};

export type Health = { readonly live: true } | { readonly live: false; readonly reason: string };

type List = {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly WatchedObject[];
};
type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'; readonly object: WatchedObject }
  | { readonly type: 'ERROR'; readonly object: { readonly code?: number; readonly message?: string } };

const PAGE_SIZE = 500;
const GONE = 410;
/** A watch that ends sooner, and long before its window does, has failed, however politely. */
const SHORTEST_WATCH_MS = 1_000;

/** After it only a new list tells what was missed. */
class BlindError extends Error {}

/**
 * Lists one kind of objects, watches it from there on, and starts again after every fault: a watch that ends is taken up
 * where it ended, one that cannot be trusted (410, an error event, a broken line) is replaced by a list.
 */
export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #known: KnownObjects;
  readonly #path: string;
  #resourceVersion: string | undefined;
  #faults = 0;
  #health: Health = { live: false, reason: 'the first list is not there yet' };

  constructor(options: ReflectorOptions) {
    const { kind, namespace, told } = options;
    this.#options = options;
    this.#known = new KnownObjects(kind, told);
    const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
    this.#path = `/apis/${CONNECTION_API_VERSION}${scope}/${kind}`;
  }

  health(): Health {
    return this.#health;
  }

  /** Runs until the signal aborts; no fault ends it. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#list(signal);
        if (!signal.aborted) await this.#watch(signal);
      } catch (error) {
        if (!signal.aborted) await this.#recover(error as Error, signal);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const items: WatchedObject[] = [];
    let page: List | undefined;
    do {
      const query = { limit: PAGE_SIZE, ...(page && { continue: page.metadata.continue ?? '' }) };
      page = (await this.#options.client.call<List>({ method: 'GET', path: this.#path, query, signal })).body;
      items.push(...page.items);
    } while (page.metadata.continue);
    for (const change of this.#known.relist(items.map(asTold))) await this.#options.tell(change);
    this.#resourceVersion = page.metadata.resourceVersion;
  }

  /** Reads one watch to its end, which is the end of its window unless something is wrong. */
  async #watch(signal: AbortSignal): Promise<void> {
    const { client, clock, timing } = this.#options;
    const query = {
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: this.#resourceVersion ?? '',
      timeoutSeconds: Math.ceil(timing.windowMs / 1_000),
    };
    const response = await client.open({ method: 'GET', path: this.#path, query, signal });
    const openedAtMs = clock.monotonicMs();
    this.#health = { live: true };
    for await (const line of linesOf(response, clock, timing.windowMs + timing.graceMs)) await this.#take(line);
    const lastedMs = clock.monotonicMs() - openedAtMs;
    if (lastedMs < Math.min(SHORTEST_WATCH_MS, timing.windowMs / 2))
      throw new Error('the API server ended the watch at once');
    this.#faults = 0;
  }

  async #take(line: string): Promise<void> {
    const event = eventOf(line);
    if (event.type === 'ERROR') {
      const { code = 0, message = 'without a message' } = event.object;
      throw new BlindError(`the watch ended with error ${code}: ${message}`);
    }
    if (event.type !== 'BOOKMARK') {
      const changes = this.#known.event(event.type, asTold(event.object));
      for (const change of changes) await this.#options.tell(change);
    }
    this.#resourceVersion = event.object.metadata.resourceVersion;
  }

  async #recover(error: Error, signal: AbortSignal): Promise<void> {
    const { clock, random, timing, kind, namespace } = this.#options;
    const isGone = error instanceof StoreError && error.status === GONE;
    if (isGone || error instanceof BlindError) this.#resourceVersion = undefined;
    const where = namespace === undefined ? 'all namespaces' : `namespace ${namespace}`;
    this.#health = { live: false, reason: `no watch of ${kind} in ${where}: ${error.message}` };
    const pauseMs = Math.min(timing.maxBackOffMs, timing.backOffMs * 2 ** this.#faults);
    const askedMs = (error instanceof StoreError && error.retryAfterMs) || 0;
    this.#faults += 1;
    await clock.sleep(Math.max(askedMs, pauseMs * (1 - random() / 2)), signal).catch(() => {}); // woken by the abort
  }
}

function eventOf(line: string): WatchEvent {
  try {
    const event = JSON.parse(line) as WatchEvent;
    if (typeof event.object !== 'object') throw new Error('no object');
    if (event.type !== 'ERROR' && !event.object.metadata.resourceVersion) throw new Error('no resourceVersion');
    return event;
  } catch (error) {
    throw new BlindError(`the watch told what is no event: ${line.slice(0, 200)}`, { cause: error });
  }
}

/** Lines of a stream. Silence ends it, but only while nobody is busy with what came before. */
async function* linesOf(response: IncomingMessage, clock: Clock, silenceMs: number): AsyncGenerator<string> {
  response.setEncoding('utf8');
  const chunks = response[Symbol.asyncIterator]() as AsyncIterator<string>;
  let rest = '';
  try {
    for (;;) {
      const silence = new Error(`silent for ${silenceMs} ms`);
      const timer = clock.after(silenceMs, () => response.destroy(silence));
      const chunk = await chunks.next().finally(() => timer.cancel());
      if (chunk.done) break;
      const lines = (rest + chunk.value).split('\n');
      rest = lines.pop() ?? '';
      yield* lines.filter((line) => line !== '');
    }
    if (rest !== '') throw new BlindError(`the watch ended in the middle of an event: ${rest.slice(0, 200)}`);
  } finally {
    if (!response.complete) response.destroy();
  }
}
