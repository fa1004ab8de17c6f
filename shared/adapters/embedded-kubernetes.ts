import type { Change, ChangeKind } from '../domain/change.ts';
import type {
  Connection,
  ConnectionRef,
  ConnectionStatus,
  DesiredConnection,
  ObjectMeta,
  PublicKey,
} from '../domain/connection.ts';
import { connectionKey } from '../domain/connection.ts';
import type { Clock } from '../ports/clock.ts';
import { OwnedStatus } from './embedded-field-ownership.ts';
import type { WatchedObject } from './known-objects.ts';

export type EmbeddedKubernetesOptions = {
  /** Its wall clock labels creation and ownership. */
  readonly clock: Pick<Clock, 'unixMs'>;
  /** Gives each object a uid of its own, also where the name comes back. */
  readonly newUid: () => string;
};

/** Told of every write, or that the link to the feeds was cut or came back. */
export type Listener = {
  onEvent(kind: ChangeKind, type: Change['type'], object: WatchedObject): void;
  onLink(): void;
};

type Stored = { connection: Connection; readonly owned: OwnedStatus };

/**
 * The part of a Kubernetes cluster that the functions see, in one process: Connections and PublicKeys with uids, resource
 * versions and field ownership. Its stores and feeds are its clients; the other methods are what others do to the objects.
 * No timer, no randomness: the same calls give the same objects.
 */
export class EmbeddedKubernetes {
  readonly #clock: Pick<Clock, 'unixMs'>;
  readonly #newUid: () => string;
  readonly #connections = new Map<string, Stored>();
  readonly #publicKeys = new Map<string, PublicKey>();
  readonly #listeners = new Set<Listener>();
  #resourceVersion = 0;
  #cutReason: string | undefined;

  constructor({ clock, newUid }: EmbeddedKubernetesOptions) {
    this.#clock = clock;
    this.#newUid = newUid;
  }

  get(ref: ConnectionRef): Connection | undefined {
    return this.#connections.get(connectionKey(ref))?.connection;
  }

  /** All objects of a kind, without an order. */
  list(kind: ChangeKind): WatchedObject[] {
    return kind === 'publickeies'
      ? [...this.#publicKeys.values()]
      : [...this.#connections.values()].map(({ connection }) => connection);
  }

  /** @returns `undefined` where the name is taken */
  create({ metadata, spec }: DesiredConnection): Connection | undefined {
    const key = connectionKey(metadata);
    if (this.#connections.has(key)) return undefined;
    const connection = { metadata: { ...metadata, ...this.#born() }, spec };
    this.#connections.set(key, { connection, owned: new OwnedStatus() });
    this.#emit('connections', 'ADDED', connection);
    return connection;
  }

  /** Replaces labels, owner references and spec; the status stays. */
  replace({ metadata, spec }: DesiredConnection): Connection {
    const stored = this.#stored(metadata);
    const { labels, ownerReferences } = metadata;
    return this.#write(stored, {
      ...stored.connection,
      metadata: { ...stored.connection.metadata, labels, ownerReferences },
      spec,
    });
  }

  /** Lets `edit` change the status and who owns it; where it says that nothing changed, the resource version stays. */
  editStatus(ref: ConnectionRef, edit: (owned: OwnedStatus, time: string) => boolean): Connection {
    const stored = this.#stored(ref);
    if (!edit(stored.owned, this.#now())) return stored.connection;
    const { metadata, spec } = stored.connection;
    const status = stored.owned.status();
    const managedFields = stored.owned.managedFields();
    return this.#write(stored, { metadata: { ...metadata, managedFields }, spec, ...(status && { status }) });
  }

  /** A PUT on `/status` by somebody else: `manager` becomes the owner of what it changes, also inside a tunnel's entry. */
  foreignPut(ref: ConnectionRef, manager: string, edit: (status: ConnectionStatus) => ConnectionStatus): Connection {
    return this.editStatus(ref, (owned, time) => owned.update(manager, edit(owned.status() ?? {}), time));
  }

  /** @returns whether there was one */
  deleteConnection(ref: ConnectionRef): boolean {
    const connection = this.get(ref);
    if (connection === undefined) return false;
    this.#connections.delete(connectionKey(ref));
    this.#emit('connections', 'DELETED', this.#moved(connection));
    return true;
  }

  /** Creates the PublicKey, or replaces its labels and key. */
  putPublicKey(key: {
    readonly metadata: ConnectionRef & { readonly labels?: Readonly<Record<string, string>> };
    readonly spec: PublicKey['spec'];
  }): PublicKey {
    const before = this.#publicKeys.get(connectionKey(key.metadata));
    const publicKey = before
      ? this.#moved({ metadata: { ...before.metadata, ...key.metadata }, spec: key.spec })
      : { metadata: { ...key.metadata, ...this.#born() }, spec: key.spec };
    this.#publicKeys.set(connectionKey(key.metadata), publicKey);
    this.#emit('publickeies', before ? 'MODIFIED' : 'ADDED', publicKey);
    return publicKey;
  }

  /** @returns whether there was one */
  deletePublicKey(ref: ConnectionRef): boolean {
    const publicKey = this.#publicKeys.get(connectionKey(ref));
    if (publicKey === undefined) return false;
    this.#publicKeys.delete(connectionKey(ref));
    this.#emit('publickeies', 'DELETED', this.#moved(publicKey));
    return true;
  }

  /** Blinds every feed: what happens until {@link restoreFeeds} they find out by listing again. */
  cutFeeds(reason: string): void {
    this.#cutReason = reason;
    for (const listener of this.#listeners) listener.onLink();
  }

  restoreFeeds(): void {
    this.#cutReason = undefined;
    for (const listener of this.#listeners) listener.onLink();
  }

  /** Why feeds are blind, `undefined` while they see. */
  get cutReason(): string | undefined {
    return this.#cutReason;
  }

  /** @returns what ends the subscription */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #stored(ref: ConnectionRef): Stored {
    const stored = this.#connections.get(connectionKey(ref));
    if (stored === undefined) throw new Error(`connection ${connectionKey(ref)} does not exist: create it first`);
    return stored;
  }

  #write(stored: Stored, connection: Connection): Connection {
    stored.connection = this.#moved(connection);
    this.#emit('connections', 'MODIFIED', stored.connection);
    return stored.connection;
  }

  #emit(kind: ChangeKind, type: Change['type'], object: WatchedObject): void {
    if (this.#cutReason !== undefined) return;
    for (const listener of this.#listeners) listener.onEvent(kind, type, object);
  }

  #moved<T extends { readonly metadata: ObjectMeta }>(object: T): T {
    return { ...object, metadata: { ...object.metadata, resourceVersion: this.#nextVersion() } };
  }

  #born(): { uid: string; resourceVersion: string; creationTimestamp: string } {
    return { uid: this.#newUid(), resourceVersion: this.#nextVersion(), creationTimestamp: this.#now() };
  }

  #nextVersion(): string {
    this.#resourceVersion += 1;
    return String(this.#resourceVersion);
  }

  /** RFC 3339 to the second, as the API server writes it. */
  #now(): string {
    return new Date(this.#clock.unixMs()).toISOString().replace(/\.\d+Z$/, 'Z');
  }
}
