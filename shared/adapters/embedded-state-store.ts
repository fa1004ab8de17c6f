import type { StateEntry, StateStore } from '../ports/state-store.ts';

/** The KV bucket in memory. Values are kept as JSON: what comes back is never what a caller still holds. */
export class EmbeddedStateStore implements StateStore {
  readonly #entries = new Map<string, { readonly json: string; readonly revision: number }>();
  /** Counts over all keys, as a bucket's stream does. */
  #revision = 0;

  async get(key: string): Promise<StateEntry | undefined> {
    const entry = this.#entries.get(key);
    return entry && { value: JSON.parse(entry.json) as unknown, revision: entry.revision };
  }

  async put(key: string, value: unknown, expectedRevision?: number): Promise<number | undefined> {
    const revision = this.#entries.get(key)?.revision ?? 0;
    if (expectedRevision !== undefined && expectedRevision !== revision) return undefined;
    this.#entries.set(key, { json: JSON.stringify(value), revision: ++this.#revision });
    return this.#revision;
  }

  async delete(key: string): Promise<void> {
    if (this.#entries.delete(key)) this.#revision++;
  }
}
