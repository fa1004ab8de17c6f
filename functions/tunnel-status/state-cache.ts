import type { TunnelState } from '../../shared/domain/tunnel-status.ts';
import type { StateStore } from '../../shared/ports/state-store.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Tunnels of a partition that are remembered; one that is forgotten costs a read of the bucket. */
const MAX_COPIES = 4_096;

export type Cached = { state: TunnelState | undefined; revision: number };

/**
 * The state of the tunnels of one partition: a copy of the KV bucket, trusted only while no other replica handled
 * an event of the partition.
 */
export type PartitionCache = {
  /** Forgets all copies: somebody else may have written. */
  clear(): void;
  load(key: string): Promise<Cached>;
  /** Like {@link load}, after a conflict: from the store, unless what it holds is what this copy came from. */
  reload(key: string): Promise<Cached>;
  /** Keeps durably. `false`: another replica wrote in between; the copy is dropped. */
  save(key: string, state: TunnelState): Promise<boolean>;
  /**
   * Keeps in memory what is not worth a write (the last sequence of throttled events), and durably what other replicas
   * must know: a newer gateway run, a change of value that waits to be written. Resolves like {@link save}.
   */
  note(key: string, state: TunnelState | undefined): Promise<boolean>;
};

export function partitionCache(store: StateStore): PartitionCache {
  const copies = new BoundedMap<string, Cached>(MAX_COPIES);

  async function fetch(key: string): Promise<Cached> {
    const entry = await store.get(key);
    const fresh: Cached = { state: entry?.value as TunnelState | undefined, revision: entry?.revision ?? 0 };
    copies.set(key, fresh);
    return fresh;
  }

  async function save(key: string, state: TunnelState): Promise<boolean> {
    const revision = await store.put(key, state, copies.get(key)?.revision ?? 0);
    if (revision === undefined) {
      copies.delete(key);
      return false;
    }
    copies.set(key, { state, revision });
    return true;
  }

  return {
    clear: () => copies.clear(),

    load: async (key) => copies.get(key) ?? fetch(key),

    async reload(key) {
      const copy = copies.get(key);
      const fresh = await fetch(key);
      if (copy === undefined || copy.revision !== fresh.revision) return fresh;
      copies.set(key, copy);
      return copy;
    },

    save,

    async note(key, state) {
      const copy = copies.get(key);
      const known = copy?.state;
      if (state !== undefined && (state.gatewayEpoch !== known?.gatewayEpoch || state.pending !== known.pending)) {
        return save(key, state);
      }
      if (copy !== undefined) copy.state = state;
      return true;
    },
  };
}
