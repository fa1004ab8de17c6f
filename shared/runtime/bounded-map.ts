/** A map that forgets its oldest entries: for what is only remembered to save work, or to tell people. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    super();
    this.#maxEntries = maxEntries;
  }

  /** A key that is set again counts as the youngest. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#maxEntries) this.delete(this.keys().next().value as Key);
    return this;
  }
}
