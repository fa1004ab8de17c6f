import type { Change, ChangeKind } from '../domain/change.ts';
import { isNewerResourceVersion } from '../domain/connection.ts';

export type WatchedObject = Change['object'];

/**
 * What is told already of one kind of objects, by one run of a change feed and those before it. It turns lists and watch
 * events into changes, each told once: what was known already is left out, and what vanished while nobody looked is told
 * as deleted.
 */
export class KnownObjects {
  readonly #kind: ChangeKind;
  readonly #objects = new Map<string, WatchedObject>();

  /** @param told - the last change of each object, of this kind or another, that was told before this run */
  constructor(kind: ChangeKind, told: readonly Change[] = []) {
    this.#kind = kind;
    for (const { kind: of, type, object } of told) {
      if (of === kind && type !== 'DELETED') this.#objects.set(keyOf(object), object);
    }
  }

  /** The changes between what is known and a full list: deletions first, then by age. */
  relist(items: readonly WatchedObject[]): Change[] {
    const listed = new Map(items.map((item) => [keyOf(item), item]));
    const gone = [...this.#objects.values()].filter(
      (known) => listed.get(keyOf(known))?.metadata.uid !== known.metadata.uid,
    );
    const changes = gone.map((object) => this.#forget(object));
    for (const object of items.toSorted(byAge)) changes.push(...this.#seen(object));
    return changes;
  }

  /** The changes that a watch event brings: none if it was known, two if a namesake took the place. */
  event(type: Change['type'], object: WatchedObject): Change[] {
    const known = this.#objects.get(keyOf(object));
    if (type === 'DELETED') return known?.metadata.uid === object.metadata.uid ? [this.#forget(object)] : [];
    const predecessor = known !== undefined && known.metadata.uid !== object.metadata.uid ? [this.#forget(known)] : [];
    return [...predecessor, ...this.#seen(object)];
  }

  #seen(object: WatchedObject): Change[] {
    const known = this.#objects.get(keyOf(object));
    if (known && !isNewerResourceVersion(object.metadata.resourceVersion, known.metadata.resourceVersion)) return [];
    this.#objects.set(keyOf(object), object);
    return [this.#change(known ? 'MODIFIED' : 'ADDED', object)];
  }

  #forget(object: WatchedObject): Change {
    this.#objects.delete(keyOf(object));
    return this.#change('DELETED', object);
  }

  #change(type: Change['type'], object: WatchedObject): Change {
    return { kind: this.#kind, type, object } as Change;
  }
}

/**
 * As changes carry it. Nobody judges by managedFields and annotations; they are bulky, and what people write in annotations
 * is no business of the queue.
 */
export function asTold(object: WatchedObject): WatchedObject {
  const { managedFields: _, annotations: __, ...metadata }: AnyMetadata = object.metadata;
  return { ...object, metadata } as WatchedObject;
}

type AnyMetadata = WatchedObject['metadata'] & { readonly annotations?: unknown };

function keyOf({ metadata }: WatchedObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function byAge({ metadata: a }: WatchedObject, { metadata: b }: WatchedObject): number {
  if (a.resourceVersion === b.resourceVersion) return 0;
  return isNewerResourceVersion(a.resourceVersion, b.resourceVersion) ? 1 : -1;
}
