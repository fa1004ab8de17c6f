import type {
  AggregateStatus,
  Connection,
  ConnectionRef,
  ConnectionStatus,
  DesiredConnection,
  Latency,
  ObjectMeta,
  TunnelEntry,
} from '../domain/connection.ts';
import { AGGREGATE_FIELD_MANAGER, CONNECTION_API_VERSION } from '../domain/connection.ts';
import { parseLatency } from '../domain/latency.ts';
import { mendConnection } from '../domain/mend-connection.ts';
import type { CallOptions, ConnectionStore, WriteOptions } from '../ports/connection-store.ts';
import { StoreError } from '../ports/connection-store.ts';
import type { ApiRequest, KubernetesClient } from './kubernetes-client.ts';

/** What a field manager applies to `/status`: the fields it owns and no others. No status: it gives up all. */
type ConnectionStatusApply = {
  readonly apiVersion: typeof CONNECTION_API_VERSION;
  readonly kind: 'Connection';
  readonly metadata: ConnectionRef & { readonly resourceVersion?: string };
  readonly status?: ConnectionStatus;
};

/** A Connection as anybody may have written it. */
type Stored = {
  readonly metadata: ObjectMeta;
  readonly spec: Connection['spec'];
  readonly status?: { readonly latency?: Partial<Latency> | null } & Omit<ConnectionStatus, 'latency'>;
};

const COLLECTION = `/apis/${CONNECTION_API_VERSION}`;
const APPLY_PATCH = 'application/apply-patch+yaml';
const JSON_PATCH = 'application/json-patch+json';
const KIND = { apiVersion: CONNECTION_API_VERSION, kind: 'Connection' } as const;
/** Owns metadata and spec of the Connections it creates. */
const ENSURE_FIELD_MANAGER = 'connection-ensure';
/** Races for one object end after a round or two; more means that somebody fights us. */
const ENSURE_ATTEMPTS = 5;
/** Fields of a tunnel's entry whose absence says something. */
const CLEARED_FIELDS = ['latency', 'reason', 'message', 'lastTransitionTime'] as const;

/**
 * Connections of a real cluster. All writes of the status go through here: Server-Side Apply on `/status`, each field
 * manager applying what it owns.
 *
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
export class KubernetesConnectionStore implements ConnectionStore {
  readonly #client: KubernetesClient;

  constructor(client: KubernetesClient) {
    this.#client = client;
  }

  async get(ref: ConnectionRef, { signal }: CallOptions = {}): Promise<Connection | undefined> {
    const stored = await this.#read(ref, signal);
    return stored && readable(stored);
  }

  async ensure(
    desired: DesiredConnection,
    { signal }: CallOptions = {},
  ): Promise<{ connection: Connection; change: 'created' | 'updated' | 'none' }> {
    for (let attempt = 1; ; attempt++) {
      const live = await this.get(desired.metadata, { ...(signal && { signal }) });
      try {
        if (live === undefined) return { connection: await this.#create(desired, signal), change: 'created' };
        const mended = mendConnection(live, desired);
        if (mended === undefined) return { connection: live, change: 'none' };
        return { connection: await this.#replace(live, mended, signal), change: 'updated' };
      } catch (error) {
        // Somebody was faster: it exists by now, or has moved on, or is gone.
        const isRace = isStoreError(error, 'conflict') || (live !== undefined && isStoreError(error, 'not-found'));
        if (!isRace || attempt === ENSURE_ATTEMPTS) throw error;
      }
    }
  }

  async applyTunnel(ref: ConnectionRef, entry: TunnelEntry, options: WriteOptions = {}): Promise<Connection> {
    return this.#applyWhole(ref, entry.interfaceID, { tunnels: [entry] }, options, (stored) => {
      const at = placeOf(stored, entry.interfaceID);
      const live = stored.status?.tunnels?.find(({ interfaceID }) => interfaceID === entry.interfaceID);
      return leftoversOf(live, entry).map((field) => `${at}/${field}`);
    });
  }

  async removeTunnel(ref: ConnectionRef, interfaceId: string, options: WriteOptions = {}): Promise<Connection> {
    const released = await this.#release(ref, interfaceId, options);
    const at = placeOf(released, interfaceId);
    return this.#cutOut(released, at === undefined ? [] : [at], options.signal);
  }

  async applyAggregate(ref: ConnectionRef, status: AggregateStatus, options: WriteOptions = {}): Promise<Connection> {
    const { value, latency, conditions } = status;
    const owned = { value, ...(latency && { latency }), conditions };
    return this.#applyWhole(ref, AGGREGATE_FIELD_MANAGER, owned, options, (stored) =>
      latency === undefined && stored.status?.latency ? ['/status/latency'] : [],
    );
  }

  async #read(ref: ConnectionRef, signal: AbortSignal | undefined): Promise<Stored | undefined> {
    try {
      return (await this.#client.call<Stored>({ method: 'GET', path: pathOf(ref), signal })).body;
    } catch (error) {
      if (isStoreError(error, 'not-found')) return undefined;
      throw error;
    }
  }

  async #create({ metadata, spec }: DesiredConnection, signal: AbortSignal | undefined): Promise<Connection> {
    const { namespace } = metadata;
    const created = await this.#write({
      method: 'POST',
      path: `${COLLECTION}/namespaces/${encodeURIComponent(namespace)}/connections`,
      query: { fieldManager: ENSURE_FIELD_MANAGER },
      body: { ...KIND, metadata, spec },
      signal,
    });
    return readable(created);
  }

  async #replace(live: Connection, mended: DesiredConnection, signal: AbortSignal | undefined): Promise<Connection> {
    // Annotations and finalizers stay; uid and resourceVersion are preconditions.
    const { managedFields: _, ...kept } = live.metadata;
    const replaced = await this.#write({
      method: 'PUT',
      path: pathOf(live.metadata),
      query: { fieldManager: ENSURE_FIELD_MANAGER },
      body: { ...KIND, metadata: { ...kept, ...mended.metadata }, spec: mended.spec },
      signal,
    });
    return readable(replaced);
  }

  #apply(
    ref: ConnectionRef,
    fieldManager: string,
    status: ConnectionStatus | undefined,
    { resourceVersion, signal }: WriteOptions,
  ): Promise<Stored> {
    const { namespace, name } = ref;
    const metadata = { namespace, name, ...(resourceVersion !== undefined && { resourceVersion }) };
    const body: ConnectionStatusApply = { ...KIND, metadata, ...(status && { status }) };
    return this.#write({
      method: 'PATCH',
      path: `${pathOf(ref)}/status`,
      query: { fieldManager, force: true },
      contentType: APPLY_PATCH,
      body,
      signal,
    });
  }

  /**
   * Applies, and takes away what `leftovers` finds: what a foreign manager co-owns outlives an apply without it, such as
   * the latency of a tunnel that is down.
   */
  async #applyWhole(
    ref: ConnectionRef,
    fieldManager: string,
    status: ConnectionStatus,
    options: WriteOptions,
    leftovers: (stored: Stored) => readonly string[],
  ): Promise<Connection> {
    const { signal } = options;
    try {
      const applied = await this.#apply(ref, fieldManager, status, options);
      return await this.#cutOut(applied, leftovers(applied), signal);
    } catch (error) {
      if (!isStoreError(error, 'invalid')) throw error;
      const live = await this.#refused(ref, error, options);
      const paths = leftovers(live);
      if (paths.length === 0) throw error;
      const { resourceVersion } = (await this.#cutOut(live, paths, signal)).metadata;
      return readable(await this.#apply(ref, fieldManager, status, { resourceVersion, ...(signal && { signal }) }));
    }
  }

  /** The empty apply: the manager gives up all it owns, and what nobody else owns goes. */
  async #release(ref: ConnectionRef, fieldManager: string, options: WriteOptions): Promise<Stored> {
    try {
      return await this.#apply(ref, fieldManager, undefined, options);
    } catch (error) {
      if (!isStoreError(error, 'invalid')) throw error;
      return this.#refused(ref, error, options);
    }
  }

  /**
   * The Connection after an apply that the API server refused as invalid: where a manager gives up all of a list or map
   * that somebody else owns too, empty or not, the API server makes it null, and refuses its own work.
   */
  async #refused(ref: ConnectionRef, error: StoreError, options: WriteOptions): Promise<Stored> {
    const live = await this.#read(ref, options.signal);
    const expected = options.resourceVersion ?? live?.metadata.resourceVersion;
    if (live && live.metadata.resourceVersion === expected) return live;
    throw new StoreError(live ? 'conflict' : 'not-found', error.message, { cause: error, status: error.status });
  }

  /**
   * Takes away what no apply of ours can, ownership included. The places hold for this resource version only, which the
   * patch therefore tests.
   */
  async #cutOut(live: Stored, paths: readonly string[], signal: AbortSignal | undefined): Promise<Connection> {
    if (paths.length === 0) return readable(live);
    const { resourceVersion } = live.metadata;
    try {
      const rest = await this.#write({
        method: 'PATCH',
        path: `${pathOf(live.metadata)}/status`,
        query: { fieldManager: ENSURE_FIELD_MANAGER },
        contentType: JSON_PATCH,
        body: [
          { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
          ...paths.map((path) => ({ op: 'remove', path })),
        ],
        signal,
      });
      return readable(rest);
    } catch (error) {
      if (!isStoreError(error, 'invalid')) throw error;
      const message = `the Connection has moved on from resourceVersion ${resourceVersion}: ${error.message}`;
      throw new StoreError('conflict', message, { cause: error, status: error.status }); // a failed test is a 422
    }
  }

  async #write(request: ApiRequest): Promise<Stored> {
    return (await this.#client.call<Stored>(request)).body;
  }
}

function pathOf({ namespace, name }: ConnectionRef): string {
  return `${COLLECTION}/namespaces/${encodeURIComponent(namespace)}/connections/${encodeURIComponent(name)}`;
}

function isStoreError(error: unknown, code: StoreError['code']): error is StoreError {
  return error instanceof StoreError && error.code === code;
}

/** JSON pointer to a tunnel's entry, `undefined` where there is none. */
function placeOf({ status }: Stored, interfaceId: string): string | undefined {
  const index = status?.tunnels?.findIndex(({ interfaceID }) => interfaceID === interfaceId) ?? -1;
  return index < 0 ? undefined : `/status/tunnels/${index}`;
}

function leftoversOf(live: TunnelEntry | undefined, applied: TunnelEntry): string[] {
  return CLEARED_FIELDS.filter((field) => live?.[field] !== undefined && applied[field] === undefined);
}

/** The Go keepalive writes "N/A" and null where it has no latency: to us that is none. */
function readable({ metadata, spec, status }: Stored): Connection {
  const { latency, ...others } = status ?? {};
  const { value, timestamp } = latency ?? {};
  const isMeasured = value !== undefined && parseLatency(value) !== undefined && typeof timestamp === 'string';
  const measured = isMeasured ? { latency: { value, timestamp } } : undefined;
  return { metadata, spec, ...(status && { status: { ...others, ...measured } }) };
}
