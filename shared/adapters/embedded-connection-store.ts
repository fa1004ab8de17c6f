import type {
  AggregateStatus,
  Condition,
  Connection,
  ConnectionRef,
  DesiredConnection,
  Latency,
  TunnelEntry,
} from '../domain/connection.ts';
import { AGGREGATE_FIELD_MANAGER, connectionKey } from '../domain/connection.ts';
import { parseLatency } from '../domain/latency.ts';
import { mendConnection } from '../domain/mend-connection.ts';
import type { CallOptions, ConnectionStore, WriteOptions } from '../ports/connection-store.ts';
import { StoreError } from '../ports/connection-store.ts';
import type { OwnedStatus } from './embedded-field-ownership.ts';
import type { EmbeddedKubernetes } from './embedded-kubernetes.ts';

const VALUES = ['Connected', 'Connecting', 'Error'];
/** What the API takes as a field manager, hence as an interface. */
const MAX_INTERFACE_ID_LENGTH = 128;

/** A client of an {@link EmbeddedKubernetes}, with the errors that the real API gives. */
export class EmbeddedConnectionStore implements ConnectionStore {
  readonly #cluster: EmbeddedKubernetes;

  constructor(cluster: EmbeddedKubernetes) {
    this.#cluster = cluster;
  }

  async get(ref: ConnectionRef, options: CallOptions = {}): Promise<Connection | undefined> {
    refuseAborted(options.signal);
    return this.#cluster.get(ref);
  }

  async ensure(
    desired: DesiredConnection,
    options: CallOptions = {},
  ): Promise<{ connection: Connection; change: 'created' | 'updated' | 'none' }> {
    refuseAborted(options.signal);
    const live = this.#cluster.get(desired.metadata);
    const mended = live && mendConnection(live, desired);
    if (live && mended === undefined) return { connection: live, change: 'none' };
    if (mended) return { connection: this.#cluster.replace(mended), change: 'updated' };
    return { connection: this.#cluster.create(desired) as Connection, change: 'created' };
  }

  async applyTunnel(ref: ConnectionRef, entry: TunnelEntry, options: WriteOptions = {}): Promise<Connection> {
    const status = { tunnels: [entry] };
    return this.#write(ref, options, faultOfTunnel(entry), (owned, time) => {
      const applied = owned.apply(entry.interfaceID, status, time);
      return owned.prune(status, { tunnel: entry.interfaceID }) || applied;
    });
  }

  async removeTunnel(ref: ConnectionRef, interfaceId: string, options: WriteOptions = {}): Promise<Connection> {
    return this.#write(ref, options, undefined, (owned, time) => {
      const released = owned.apply(interfaceId, {}, time);
      return owned.prune({}, { tunnel: interfaceId }) || released;
    });
  }

  async applyAggregate(ref: ConnectionRef, status: AggregateStatus, options: WriteOptions = {}): Promise<Connection> {
    const { value, latency, conditions } = status;
    const owning = { value, ...(latency && { latency }), conditions };
    return this.#write(ref, options, faultOfAggregate(status), (owned, time) => {
      const applied = owned.apply(AGGREGATE_FIELD_MANAGER, owning, time);
      return owned.prune(owning, 'latency') || applied;
    });
  }

  #write(
    ref: ConnectionRef,
    { resourceVersion, signal }: WriteOptions,
    fault: string | undefined,
    edit: (owned: OwnedStatus, time: string) => boolean,
  ): Connection {
    refuseAborted(signal);
    const live = this.#cluster.get(ref);
    const key = connectionKey(ref);
    if (live === undefined) throw new StoreError('not-found', `connection ${key} does not exist`, { status: 404 });
    if (fault !== undefined) throw new StoreError('invalid', `connection ${key}: ${fault}`, { status: 422 });
    const actual = live.metadata.resourceVersion;
    if (resourceVersion !== undefined && resourceVersion !== actual) {
      const message = `connection ${key} has moved on from resourceVersion ${resourceVersion} to ${actual}: read it again`;
      throw new StoreError('conflict', message, { status: 409 });
    }
    return this.#cluster.editStatus(ref, edit);
  }
}

function refuseAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new StoreError('unavailable', 'the call was given up', { cause: signal.reason });
}

function faultOfTunnel(entry: TunnelEntry): string | undefined {
  const { interfaceID, value, latency, lastTransitionTime } = entry;
  const at = `status.tunnels[${interfaceID}]`;
  if (interfaceID.length === 0 || interfaceID.length > MAX_INTERFACE_ID_LENGTH) {
    return `${at}.interfaceID has ${interfaceID.length} characters: want 1 to ${MAX_INTERFACE_ID_LENGTH}`;
  }
  return (
    faultOfValue(value, at) ??
    faultOfLatency(latency, at) ??
    (lastTransitionTime === undefined ? undefined : faultOfTime(lastTransitionTime, `${at}.lastTransitionTime`))
  );
}

function faultOfAggregate({ value, latency, conditions }: AggregateStatus): string | undefined {
  const faults = conditions.map(({ type, lastTransitionTime }: Condition) =>
    faultOfTime(lastTransitionTime, `status.conditions[${type}].lastTransitionTime`),
  );
  return faultOfValue(value, 'status') ?? faultOfLatency(latency, 'status') ?? faults.find((fault) => fault);
}

function faultOfValue(value: string, at: string): string | undefined {
  return VALUES.includes(value) ? undefined : `${at}.value is "${value}": want ${VALUES.join(', ')}`;
}

function faultOfLatency(latency: Latency | undefined, at: string): string | undefined {
  if (latency === undefined) return undefined;
  if (parseLatency(latency.value) === undefined) return `${at}.latency.value is "${latency.value}": want a Go duration`;
  return faultOfTime(latency.timestamp, `${at}.latency.timestamp`);
}

function faultOfTime(time: string, at: string): string | undefined {
  const isRfc3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/.test(time);
  return isRfc3339 && !Number.isNaN(Date.parse(time)) ? undefined : `${at} is "${time}": want RFC 3339`;
}
