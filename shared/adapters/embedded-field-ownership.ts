import type { ConnectionStatus, ManagedFields } from '../domain/connection.ts';

/**
 * The merge of Server-Side Apply, for the status of a Connection: who owns which field, in the form in which managedFields
 * shows it. A status is kept as its leaves, each under its path of `f:<field>` and `k:<key of a list item>` segments.
 *
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */

type Leaves = ReadonlyMap<string, unknown>;
type Operation = 'Apply' | 'Update';
type Owner = { readonly manager: string; readonly operation: Operation; readonly time: string; paths: Set<string> };

const LIST_KEYS: Readonly<Record<string, string>> = { tunnels: 'interfaceID', conditions: 'type' };
/** No name of a field, an interface or a condition may hold it. */
const SEPARATOR = '\n';

export class OwnedStatus {
  readonly #leaves = new Map<string, unknown>();
  readonly #owners = new Map<string, Owner>();

  /**
   * What `force=true` does: the manager owns exactly what it applies. What it owned before and leaves out goes,
   * unless somebody else owns it too.
   *
   * @returns whether anything changed, ownership included
   */
  apply(manager: string, status: ConnectionStatus, time: string): boolean {
    const applied = leavesOf(status);
    const before = this.#owners.get(`Apply ${manager}`)?.paths ?? new Set<string>();
    const after = new Set(applied.keys());
    const changes = [...applied].filter(([path, value]) => this.#leaves.get(path) !== value);
    if (changes.length === 0 && before.symmetricDifference(after).size === 0) return false;
    this.#own(manager, 'Apply', after, time);
    for (const path of before.difference(after)) if (!this.#isOwned(path)) this.#leaves.delete(path);
    for (const [path, value] of changes) this.#set(path, value, `Apply ${manager}`);
    return true;
  }

  /** What a PUT or an edit does: the manager owns what it changed, everybody loses what it took away. */
  update(manager: string, status: ConnectionStatus, time: string): boolean {
    const wanted = leavesOf(status);
    const changes = [...wanted].filter(([path, value]) => this.#leaves.get(path) !== value);
    const gone = [...this.#leaves.keys()].filter((path) => !wanted.has(path));
    if (changes.length + gone.length === 0) return false;
    const owned = this.#owners.get(`Update ${manager}`)?.paths ?? new Set<string>();
    this.#own(manager, 'Update', owned.union(new Set(changes.map(([path]) => path))), time);
    for (const path of gone) this.#remove(path);
    for (const [path, value] of changes) this.#set(path, value, `Update ${manager}`);
    return true;
  }

  /**
   * Takes away, whoever owns it, what lies at `place` and is not in `kept`.
   *
   * @param place - a field, or a list and the key of its item
   */
  prune(kept: ConnectionStatus, place: 'latency' | { readonly tunnel: string }): boolean {
    const at = place === 'latency' ? ['f:latency'] : ['f:tunnels', keySegment('interfaceID', place.tunnel)];
    const prefix = pathOf(...at, '');
    const wanted = leavesOf(kept);
    const paths = [...this.#leaves.keys()].filter((path) => path.startsWith(prefix) && !wanted.has(path));
    for (const path of paths) this.#remove(path);
    return paths.length > 0;
  }

  status(): ConnectionStatus | undefined {
    return this.#leaves.size === 0 ? undefined : statusOf(this.#leaves);
  }

  managedFields(): ManagedFields[] {
    return [...this.#owners.values()].map(({ manager, operation, time, paths }) => ({
      manager,
      operation,
      subresource: 'status',
      time,
      fieldsV1: { 'f:status': fieldsOf(paths) },
    }));
  }

  #own(manager: string, operation: Operation, paths: Set<string>, time: string): void {
    const key = `${operation} ${manager}`;
    if (paths.size === 0) this.#owners.delete(key);
    else this.#owners.set(key, { manager, operation, time, paths });
  }

  #set(path: string, value: unknown, ownerKey: string): void {
    this.#leaves.set(path, value);
    for (const key of this.#owners.keys()) if (key !== ownerKey) this.#disown(key, path);
  }

  #remove(path: string): void {
    this.#leaves.delete(path);
    for (const key of this.#owners.keys()) this.#disown(key, path);
  }

  #disown(key: string, path: string): void {
    const owner = this.#owners.get(key);
    if (owner?.paths.delete(path) && owner.paths.size === 0) this.#owners.delete(key);
  }

  #isOwned(path: string): boolean {
    return [...this.#owners.values()].some(({ paths }) => paths.has(path));
  }
}

function pathOf(...segments: string[]): string {
  return segments.join(SEPARATOR);
}

function keySegment(key: string, value: unknown): string {
  return `k:${JSON.stringify({ [key]: value })}`;
}

function leavesOf(status: ConnectionStatus): Leaves {
  const leaves = new Map<string, unknown>();
  const visit = (value: unknown, path: string, field: string): void => {
    const key = LIST_KEYS[field];
    if (Array.isArray(value) && key !== undefined) {
      for (const item of value) visit(item, pathOf(path, keySegment(key, item[key])), '');
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, child] of Object.entries(value))
        visit(child, path ? pathOf(path, `f:${name}`) : `f:${name}`, name);
    } else if (value !== undefined) leaves.set(path, value);
  };
  visit(status, '', '');
  return leaves;
}

type Json = { [field: string]: unknown };

/** A list item whose key nobody owns any more still shows the key, as on the real API. */
function statusOf(leaves: Leaves): ConnectionStatus {
  const status: Json = {};
  const items = new Map<string, Json>();
  for (const [path, value] of leaves) {
    let parent = status;
    let at = '';
    const segments = path.split(SEPARATOR);
    segments.forEach((segment, depth) => {
      const name = segment.slice(2);
      at = pathOf(at, segment);
      if (segment.startsWith('k:')) {
        parent = itemAt(parent, items, at, name);
      } else if (depth === segments.length - 1) {
        parent[name] = value;
      } else {
        const isList = segments[depth + 1]?.startsWith('k:');
        parent[name] ??= isList ? [] : {};
        parent = parent[name] as Json;
      }
    });
  }
  return status as ConnectionStatus;
}

function itemAt(list: Json, items: Map<string, Json>, path: string, key: string): Json {
  const known = items.get(path);
  if (known) return known;
  const item = JSON.parse(key) as Json;
  items.set(path, item);
  (list as unknown as Json[]).push(item);
  return item;
}

function fieldsOf(paths: ReadonlySet<string>): Json {
  const fields: Json = {};
  for (const path of paths) {
    let at = fields;
    for (const segment of path.split(SEPARATOR)) {
      at[segment] ??= segment.startsWith('k:') ? { '.': {} } : {};
      at = at[segment] as Json;
    }
  }
  return fields;
}
