import {
  type AggregateStatus,
  type Connection,
  type ConnectionRef,
  connectionKey,
  connectionNameOf,
  type TunnelEntry,
} from '../domain/connection.ts';
import { type ConnectionStore, StoreError, type WriteOptions } from '../ports/connection-store.ts';

/**
 * A perfect API for replays: answers at once, never fails, and only we write to it, so field ownership needs no books.
 * What costs the real API (and the embedded one) hundreds of microseconds a write costs well under one here.
 */
export class SandboxStore implements ConnectionStore {
  readonly #connections = new Map<string, Connection>();
  #version = 0;

  async get(ref: ConnectionRef): Promise<Connection | undefined> {
    return this.peek(ref);
  }

  peek(ref: ConnectionRef): Connection | undefined {
    return this.#connections.get(connectionKey(ref));
  }

  all(): Iterable<Connection> {
    return this.#connections.values();
  }

  /** Puts a Connection without a status in the place of whatever has its name. */
  create(ref: ConnectionRef, uid: string, creationTimestamp: string): void {
    const { namespace, name } = ref;
    // The spec is not in the stream, and no function that is replayed reads it.
    const gatewayName = name.startsWith(connectionNameOf('')) ? name.slice(connectionNameOf('').length) : name;
    const gatewayRef = { apiVersion: '', kind: 'WgGatewayServer', name: gatewayName, namespace } as const;
    this.#connections.set(connectionKey(ref), {
      metadata: { namespace, name, uid, resourceVersion: this.#nextVersion(), creationTimestamp },
      spec: { type: 'Server', gatewayRef },
    });
  }

  /** Gives the Connection another uid and leaves its status. */
  rename(ref: ConnectionRef, uid: string): void {
    const { metadata, ...rest } = this.#existing(ref, {});
    this.#connections.set(connectionKey(ref), { ...rest, metadata: { ...metadata, uid } });
  }

  async ensure(): Promise<never> {
    throw new StoreError('forbidden', 'a replay creates no Connection by a function', { status: 403 });
  }

  async applyTunnel(ref: ConnectionRef, entry: TunnelEntry, options: WriteOptions = {}): Promise<Connection> {
    const current = this.#existing(ref, options);
    const tunnels = [...(current.status?.tunnels ?? [])];
    const at = tunnels.findIndex(({ interfaceID }) => interfaceID === entry.interfaceID);
    if (at < 0) tunnels.push(entry);
    else tunnels[at] = entry;
    return this.#put(current, { ...current.status, tunnels });
  }

  async removeTunnel(ref: ConnectionRef, interfaceId: string, options: WriteOptions = {}): Promise<Connection> {
    const current = this.#existing(ref, options);
    const tunnels = (current.status?.tunnels ?? []).filter(({ interfaceID }) => interfaceID !== interfaceId);
    return this.#put(current, { ...current.status, tunnels });
  }

  async applyAggregate(ref: ConnectionRef, status: AggregateStatus, options: WriteOptions = {}): Promise<Connection> {
    const current = this.#existing(ref, options);
    const { tunnels } = current.status ?? {};
    return this.#put(current, { ...status, ...(tunnels === undefined ? {} : { tunnels }) });
  }

  #existing(ref: ConnectionRef, { resourceVersion }: WriteOptions): Connection {
    const current = this.peek(ref);
    if (current === undefined) {
      throw new StoreError('not-found', `connection ${connectionKey(ref)} does not exist`, { status: 404 });
    }
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
      throw new StoreError('conflict', `connection ${connectionKey(ref)} has moved on`, { status: 409 });
    }
    return current;
  }

  #put({ metadata, spec }: Connection, status: Connection['status']): Connection {
    const connection: Connection = {
      metadata: { ...metadata, resourceVersion: this.#nextVersion() },
      spec,
      ...(status === undefined ? {} : { status }),
    };
    this.#connections.set(connectionKey(metadata), connection);
    return connection;
  }

  #nextVersion(): string {
    this.#version += 1;
    return String(this.#version);
  }
}
