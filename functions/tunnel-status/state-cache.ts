import type { EventPlace } from '../../shared/domain/event-place.ts';
import type { TunnelEvent } from '../../shared/domain/observation.ts';
import { type TunnelState, withHandled } from '../../shared/domain/tunnel-status.ts';
import type { StateStore } from '../../shared/ports/state-store.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Tunnels of a partition that are remembered; one that is forgotten costs a read of the bucket and of the stream. */
const MAX_COPIES = 4_096;

/** `kept`: what of `state` the bucket has at `revision`. */
type Copy = { state: TunnelState | undefined; readonly kept: TunnelState | undefined; readonly revision: number };

export type EventInHand = {
  readonly data: TunnelEvent;
  readonly place: EventPlace;
  /** The event that was handled before it; see `EventContext.previous`. */
  readonly previous: () => Promise<{ readonly data: TunnelEvent } | undefined>;
};

/**
 * The state of the tunnels of one partition: a copy of the KV bucket, trusted only while no other replica handled
 * an event of the partition.
 */
export class PartitionCache {
  readonly #store: StateStore;
  readonly #copies = new BoundedMap<string, Copy>(MAX_COPIES);

  constructor(store: StateStore) {
    this.#store = store;
  }

  /** Forgets all copies: somebody else may have written. */
  clear(): void {
    this.#copies.clear();
  }

  of(key: string, event: EventInHand): TunnelCache {
    return new TunnelCache(this.#store, this.#copies, key, event);
  }
}

/**
 * The state of one tunnel, for one event.
 *
 * The order of a tunnel's newest observation is in the bucket or in the event handled last, so that whoever comes next
 * knows it from these two: what is not worth a write leaves it in the event, and {@link note} keeps what the event does not say.
 */
export class TunnelCache {
  readonly #store: StateStore;
  readonly #copies: Map<string, Copy>;
  readonly #key: string;
  readonly #event: EventInHand;

  constructor(store: StateStore, copies: Map<string, Copy>, key: string, event: EventInHand) {
    this.#store = store;
    this.#copies = copies;
    this.#key = key;
    this.#event = event;
  }

  async load(): Promise<TunnelState | undefined> {
    const { state } = this.#copies.get(this.#key) ?? (await this.#fetch());
    return state;
  }

  /** Like {@link load}, after a conflict: from the store, unless what it holds is what this copy came from. */
  async reload(): Promise<TunnelState | undefined> {
    const copy = this.#copies.get(this.#key);
    const fresh = await this.#fetch();
    if (copy === undefined || copy.revision !== fresh.revision) return fresh.state;
    this.#copies.set(this.#key, copy);
    return copy.state;
  }

  /**
   * Whether the bucket still has what this copy came from. A process that slept with an event in its hands cannot know
   * otherwise that somebody else has handled it, and later ones, in the meantime. `false`: the copy is dropped.
   */
  async confirm(): Promise<boolean> {
    const revision = (await this.#store.get(this.#key))?.revision ?? 0;
    const isCurrent = revision === this.#copies.get(this.#key)?.revision;
    if (!isCurrent) this.#forget();
    return isCurrent;
  }

  /** Keeps durably. `false`: another replica wrote in between; the copy is dropped. */
  async save(state: TunnelState): Promise<boolean> {
    const kept = { ...state, place: this.#event.place };
    const revision = await this.#store.put(this.#key, kept, this.#copies.get(this.#key)?.revision ?? 0);
    if (revision === undefined) this.#forget();
    else this.#copies.set(this.#key, { state: kept, kept, revision });
    return revision !== undefined;
  }

  /**
   * Keeps in memory what is not worth a write (the sequence of a throttled event), and durably what other replicas
   * must know and the event does not tell them: a newer gateway run, a change of value that waits to be written, the order
   * of a newer observation than this event. Resolves like {@link save}.
   */
  async note(state: TunnelState | undefined): Promise<boolean> {
    const copy = this.#copies.get(this.#key);
    if (state !== undefined && mustBeKept(state, copy?.kept, this.#event.data)) return this.save(state);
    if (copy !== undefined) copy.state = state;
    return true;
  }

  #forget(): void {
    this.#copies.delete(this.#key);
  }

  async #fetch(): Promise<Copy> {
    const [entry, before] = await Promise.all([this.#store.get(this.#key), this.#event.previous()]);
    const kept = entry?.value as TunnelState | undefined;
    const fresh: Copy = { state: withHandled(kept, before?.data), kept, revision: entry?.revision ?? 0 };
    this.#copies.set(this.#key, fresh);
    return fresh;
  }
}

function mustBeKept(state: TunnelState, kept: TunnelState | undefined, event: TunnelEvent): boolean {
  if (state.gatewayEpoch !== kept?.gatewayEpoch || state.pending !== kept.pending) return true;
  const isTold = 'sequence' in event && event.sequence === state.sequence && event.gatewayEpoch === state.gatewayEpoch;
  return state.sequence !== kept.sequence && !isTold;
}
