import type { Change } from '../domain/change.ts';
import type {
  AggregateStatus,
  Connection,
  ConnectionRef,
  DesiredConnection,
  TunnelEntry,
} from '../domain/connection.ts';

export type CallOptions = { readonly signal?: AbortSignal };
/** `resourceVersion` is a precondition: an object that has moved on makes the write a `conflict`. */
export type WriteOptions = CallOptions & { readonly resourceVersion?: string };

/** The Kubernetes API as the functions use it. Every call may reject with {@link StoreError}. */
export interface ConnectionStore {
  /** `undefined` where no such Connection exists. */
  get(ref: ConnectionRef, options?: CallOptions): Promise<Connection | undefined>;
  /** Creates the Connection or mends metadata and spec where they differ; never touches the status. */
  ensure(
    desired: DesiredConnection,
    options?: CallOptions,
  ): Promise<{ readonly connection: Connection; readonly change: 'created' | 'updated' | 'none' }>;
  /** Server-Side Apply of one entry on `/status`, field manager = `entry.interfaceID`. */
  applyTunnel(ref: ConnectionRef, entry: TunnelEntry, options?: WriteOptions): Promise<Connection>;
  /** Takes the entry away, whoever owns or co-owns it. */
  removeTunnel(ref: ConnectionRef, interfaceId: string, options?: WriteOptions): Promise<Connection>;
  /** Server-Side Apply of value, latency and conditions on `/status`, field manager `connection-aggregate`. */
  applyAggregate(ref: ConnectionRef, status: AggregateStatus, options?: WriteOptions): Promise<Connection>;
}

/** Where connection-watch gets its changes. */
export interface ChangeFeed {
  /**
   * Lists, then watches; tells each change once in order, deletions too that happened while it was blind. Waits for
   * `onChange` before it tells the next. Resolves when `signal` aborts; never rejects for a fault of the API: it backs
   * off, and `health` says why meanwhile.
   *
   * @param told - the last change of each object that was told before, by whomever: what of it is gone is told as
   *   deleted, what has not changed since is not told again. @defaultValue none
   */
  run(onChange: (change: Change) => Promise<void>, signal: AbortSignal, told?: readonly Change[]): Promise<void>;
  health(): { readonly live: true } | { readonly live: false; readonly reason: string };
}

/**
 * - `conflict`: the resourceVersion is not the object's any more (409)
 * - `not-found`: no such Connection (404)
 * - `schema`: the CRD lacks a field that we write; run setup
 * - `forbidden`: RBAC or credentials (401, 403)
 * - `invalid`: the API refuses the content (400, 422)
 * - `busy`: the API asks to come back later (429, 503), see `retryAfterMs`
 * - `unavailable`: no answer in time, or a 5xx
 */
export type StoreErrorCode = 'conflict' | 'not-found' | 'schema' | 'forbidden' | 'invalid' | 'busy' | 'unavailable';

export class StoreError extends Error {
  readonly code: StoreErrorCode;
  /** HTTP status, 0 where none came. */
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  constructor(
    code: StoreErrorCode,
    message: string,
    options: ErrorOptions & { readonly status?: number; readonly retryAfterMs?: number } = {},
  ) {
    super(message, options);
    this.name = 'StoreError';
    this.code = code;
    this.status = options.status ?? 0;
    this.retryAfterMs = options.retryAfterMs;
  }
}
