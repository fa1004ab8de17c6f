/** The KV bucket of the functions: JSON values, last one only, compare-and-set by revision. */
export interface StateStore {
  get(key: string): Promise<StateEntry | undefined>;
  /**
   * Writes if the key is at `expectedRevision` (0: does not exist), or in any case where that is left out.
   * Resolves to the new revision, or to `undefined` when another writer was first.
   */
  put(key: string, value: unknown, expectedRevision?: number): Promise<number | undefined>;
  /** Removing what does not exist is fine. */
  delete(key: string): Promise<void>;
}

export type StateEntry = { readonly value: unknown; readonly revision: number };
