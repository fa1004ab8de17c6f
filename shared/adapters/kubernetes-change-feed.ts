import { CHANGE_KINDS, type Change, type ChangeKind } from '../domain/change.ts';
import type { Clock } from '../ports/clock.ts';
import type { ChangeFeed } from '../ports/connection-store.ts';
import type { KubernetesClient } from './kubernetes-client.ts';
import { type Health, Reflector, type WatchTiming } from './kubernetes-reflector.ts';

export type KubernetesChangeFeedOptions = {
  readonly clock: Clock;
  /** A number from 0 up to 1: spreads the pauses of many replicas. */
  readonly random: () => number;
  /** @defaultValue all namespaces */
  readonly namespaces?: readonly string[];
  /** @defaultValue all that functions want to know of */
  readonly kinds?: readonly ChangeKind[];
  /** @defaultValue windows of 25 s, 5 s of grace, pauses from 200 ms to 10 s */
  readonly timing?: Partial<WatchTiming>;
};

/** A dead link is noticed within 30 s; a watch costs the API server one short request in 25 s. */
const DEFAULT_TIMING: WatchTiming = { windowMs: 25_000, graceMs: 5_000, backOffMs: 200, maxBackOffMs: 10_000 };

/** Connections and PublicKeys of a real cluster: one list and watch a kind and namespace, told one change at a time. */
export class KubernetesChangeFeed implements ChangeFeed {
  readonly #client: KubernetesClient;
  readonly #options: KubernetesChangeFeedOptions;
  #reflectors: readonly Reflector[] = [];

  constructor(client: KubernetesClient, options: KubernetesChangeFeedOptions) {
    this.#client = client;
    this.#options = options;
  }

  health(): Health {
    if (this.#reflectors.length === 0) return { live: false, reason: 'the feed does not run' };
    return this.#reflectors.map((reflector) => reflector.health()).find(({ live }) => !live) ?? { live: true };
  }

  /** Rejects with what `onChange` rejects with: a change that is not taken must not be passed over. */
  async run(
    onChange: (change: Change) => Promise<void>,
    signal: AbortSignal,
    told: readonly Change[] = [],
  ): Promise<void> {
    const teller = new Teller(onChange);
    const end = () => teller.end();
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    const { clock, random, namespaces = [undefined], kinds = CHANGE_KINDS } = this.#options;
    const timing = { ...DEFAULT_TIMING, ...this.#options.timing };
    const shared = { client: this.#client, clock, random, timing, tell: (change: Change) => teller.tell(change) };
    this.#reflectors = kinds.flatMap((kind) =>
      namespaces.map((namespace) => new Reflector({ ...shared, kind, namespace, told: toldIn(namespace, told) })),
    );
    try {
      await Promise.all(this.#reflectors.map((reflector) => reflector.run(teller.ended)));
    } finally {
      this.#reflectors = [];
      signal.removeEventListener('abort', end);
    }
    teller.throwFault();
  }
}

/** A list of one namespace says nothing of the others. */
function toldIn(namespace: string | undefined, told: readonly Change[]): readonly Change[] {
  return namespace === undefined ? told : told.filter(({ object }) => object.metadata.namespace === namespace);
}

/** Passes on one change at a time, whichever reflector it comes from, and none once it has ended. */
class Teller {
  readonly #onChange: (change: Change) => Promise<void>;
  readonly #stop = new AbortController();
  #last: Promise<void> = Promise.resolve();
  #fault: { readonly error: unknown } | undefined;

  constructor(onChange: (change: Change) => Promise<void>) {
    this.#onChange = onChange;
  }

  get ended(): AbortSignal {
    return this.#stop.signal;
  }

  end(): void {
    this.#stop.abort();
  }

  tell(change: Change): Promise<void> {
    this.#last = this.#last.then(() => this.#pass(change));
    return this.#last;
  }

  throwFault(): void {
    if (this.#fault) throw this.#fault.error;
  }

  async #pass(change: Change): Promise<void> {
    if (this.#stop.signal.aborted) return;
    try {
      await this.#onChange(change);
    } catch (error) {
      this.#fault = { error };
      this.end();
    }
  }
}
