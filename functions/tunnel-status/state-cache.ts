import type { TunnelEvent } from '../../shared/domain/observation.ts';
import { type TunnelState, withHandled } from '../../shared/domain/tunnel-status.ts';
import type { StateStore } from '../../shared/ports/state-store.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Tunnels of a partition that are remembered; one that is forgotten costs a read of the bucket and of the stream. */
const MAX_COPIES = 4_096;

/** `kept`: what of `state` the bucket has at `revision`. */
export type Cached = {
  state: TunnelState | undefined;
  readonly kept: TunnelState | undefined;
  readonly revision: number;
};

/** The event that was handled before the one in hand; see `EventContext.previous`. */
type Previous = () => Promise<{ readonly data: TunnelEvent } | undefined>;

/**
 * The state of the tunnels of one partition: a copy of the KV bucket, trusted only while no other replica handled
 * an event of the partition.
 *
 * The order of a tunnel's newest observation is in the bucket or in the event handled last, so that whoever comes next
 * knows it from these two: what is not worth a write leaves it in the event, and {@link note} keeps what the event does not say.
 */
export type PartitionCache = {
  /** Forgets all copies: somebody else may have written. */
  clear(): void;
  /** Forgets one: an event was settled that it does not tell of. */
  forget(key: string): void;
  load(key: string, previous: Previous): Promise<Cached>;
  /** Like {@link load}, after a conflict: from the store, unless what it holds is what this copy came from. */
  reload(key: string, previous: Previous): Promise<Cached>;
  /**
   * Whether the bucket still has what this copy came from. A process that slept with an event in its hands cannot know
   * otherwise that somebody else has handled it, and later ones, in the meantime. `false`: the copy is dropped.
   */
  confirm(key: string): Promise<boolean>;
  /** Keeps durably. `false`: another replica wrote in between; the copy is dropped. */
  save(key: string, state: TunnelState): Promise<boolean>;
  /**
   * Keeps in memory what is not worth a write (the sequence of a throttled event), and durably what other replicas
   * must know and `event`, which was handled now, does not tell them: a newer gateway run, a change of value that waits
   * to be written, the order of a newer observation than this event. Resolves like {@link save}.
   */
  note(key: string, state: TunnelState | undefined, event: TunnelEvent): Promise<boolean>;
};

export function partitionCache(store: StateStore): PartitionCache {
  const copies = new BoundedMap<string, Cached>(MAX_COPIES);

  async function fetch(key: string, previous: Previous): Promise<Cached> {
    const [entry, before] = await Promise.all([store.get(key), previous()]);
    const kept = entry?.value as TunnelState | undefined;
    const fresh: Cached = { state: withHandled(kept, before?.data), kept, revision: entry?.revision ?? 0 };
    copies.set(key, fresh);
    return fresh;
  }

  async function save(key: string, state: TunnelState): Promise<boolean> {
    const revision = await store.put(key, state, copies.get(key)?.revision ?? 0);
    if (revision === undefined) {
      copies.delete(key);
      return false;
    }
    copies.set(key, { state, kept: state, revision });
    return true;
  }

  return {
    clear: () => copies.clear(),

    forget: (key) => void copies.delete(key),

    load: async (key, previous) => copies.get(key) ?? fetch(key, previous),

    async reload(key, previous) {
      const copy = copies.get(key);
      const fresh = await fetch(key, previous);
      if (copy === undefined || copy.revision !== fresh.revision) return fresh;
      copies.set(key, copy);
      return copy;
    },

    async confirm(key) {
      const revision = (await store.get(key))?.revision ?? 0;
      const isCurrent = revision === copies.get(key)?.revision;
      if (!isCurrent) copies.delete(key);
      return isCurrent;
    },

    save,

    async note(key, state, event) {
      const copy = copies.get(key);
      if (state !== undefined && mustBeKept(state, copy?.kept, event)) return save(key, state);
      if (copy !== undefined) copy.state = state;
      return true;
    },
  };
}

function mustBeKept(state: TunnelState, kept: TunnelState | undefined, event: TunnelEvent): boolean {
  if (state.gatewayEpoch !== kept?.gatewayEpoch || state.pending !== kept.pending) return true;
  const isTold = 'sequence' in event && event.sequence === state.sequence && event.gatewayEpoch === state.gatewayEpoch;
  return state.sequence !== kept.sequence && !isTold;
}
