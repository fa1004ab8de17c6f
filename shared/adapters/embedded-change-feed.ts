import { CHANGE_KINDS, type Change, type ChangeKind } from '../domain/change.ts';
import type { ChangeFeed } from '../ports/connection-store.ts';
import type { EmbeddedKubernetes, Listener } from './embedded-kubernetes.ts';
import { asTold, KnownObjects, type WatchedObject } from './known-objects.ts';

type Event = { readonly kind: ChangeKind; readonly type: Change['type']; readonly object: WatchedObject };

/** Lists and watches an {@link EmbeddedKubernetes}, all namespaces or the given ones. */
export class EmbeddedChangeFeed implements ChangeFeed {
  readonly #cluster: EmbeddedKubernetes;
  readonly #namespaces: ReadonlySet<string> | undefined;
  #running = false;

  constructor(cluster: EmbeddedKubernetes, options: { readonly namespaces?: readonly string[] } = {}) {
    this.#cluster = cluster;
    this.#namespaces = options.namespaces && new Set(options.namespaces);
  }

  health(): ReturnType<ChangeFeed['health']> {
    if (!this.#running) return { live: false, reason: 'the feed does not run' };
    const reason = this.#cluster.cutReason;
    return reason === undefined ? { live: true } : { live: false, reason };
  }

  async run(
    onChange: (change: Change) => Promise<void>,
    signal: AbortSignal,
    told: readonly Change[] = [],
  ): Promise<void> {
    const subscription = new Subscription(this.#cluster, (object) => this.#isWatched(object), told);
    signal.addEventListener('abort', subscription.wake);
    this.#running = true;
    try {
      while (!signal.aborted) {
        const changes = subscription.take();
        if (changes === undefined) await subscription.sleep();
        for (const change of changes ?? []) if (!signal.aborted) await onChange(change);
      }
    } finally {
      this.#running = false;
      subscription.end();
      signal.removeEventListener('abort', subscription.wake);
    }
  }

  #isWatched({ metadata }: WatchedObject): boolean {
    return this.#namespaces?.has(metadata.namespace) ?? true;
  }
}

class Subscription implements Listener {
  readonly #cluster: EmbeddedKubernetes;
  readonly #isWatched: (object: WatchedObject) => boolean;
  readonly #known: Readonly<Record<ChangeKind, KnownObjects>>;
  readonly #unsubscribe: () => void;
  #events: Event[] = [];
  #mustList = true;
  #awake = Promise.withResolvers<void>();

  constructor(cluster: EmbeddedKubernetes, isWatched: (object: WatchedObject) => boolean, told: readonly Change[]) {
    this.#cluster = cluster;
    this.#isWatched = isWatched;
    const known = told.filter(({ object }) => isWatched(object));
    this.#known = {
      connections: new KnownObjects('connections', known),
      publickeies: new KnownObjects('publickeies', known),
    };
    this.#unsubscribe = cluster.subscribe(this);
  }

  onEvent(kind: ChangeKind, type: Change['type'], object: WatchedObject): void {
    if (!this.#isWatched(object)) return;
    this.#events.push({ kind, type, object });
    this.wake();
  }

  onLink(): void {
    this.#mustList = true;
    this.wake();
  }

  readonly wake = (): void => this.#awake.resolve();

  sleep(): Promise<void> {
    return this.#awake.promise;
  }

  end(): void {
    this.#unsubscribe();
  }

  /** What is to be told next, `undefined` if nothing before the next {@link wake}. */
  take(): Change[] | undefined {
    this.#awake = Promise.withResolvers();
    if (this.#mustList) {
      this.#events = [];
      if (this.#cluster.cutReason !== undefined) return undefined;
      this.#mustList = false;
      return CHANGE_KINDS.flatMap((kind) => {
        const objects = this.#cluster.list(kind).filter(this.#isWatched);
        return this.#known[kind].relist(objects.map(asTold));
      });
    }
    const event = this.#events.shift();
    return event && this.#known[event.kind].event(event.type, asTold(event.object));
  }
}
