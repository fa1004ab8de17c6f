import { type Connection, REMOTE_CLUSTER_ID_LABEL } from './connection.ts';
import type { RecordedMessage } from './recorded-message.ts';

/**
 * Gives names and addresses other ones, the same one for the same name throughout, so that a recording can be shown to
 * strangers. Strict: a field that is not known to be harmless or renamed is left out, and so is all text of an event that
 * cannot be read. Names of interfaces of the usual form (`liqo-tunnel3`) say nothing and stay.
 */
export class Anonymizer {
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<Sort, number>();
  #pattern: RegExp | undefined;

  message(message: RecordedMessage): RecordedMessage {
    const { stream, sequence, storedAtUnixMs, event } = message;
    if (event === undefined) {
      // What is wrong with it would be told by its text; that it is there still counts.
      return { stream, sequence, storedAtUnixMs, raw: { subject: 'anonymized', headers: {}, data: new Uint8Array() } };
    }
    const data = this.#value('data', event.data);
    const { id, source, type, time } = event;
    const named = { id: this.#text(id), source: this.#text(source), type, ...(time === undefined ? {} : { time }) };
    return { stream, sequence, storedAtUnixMs, event: { ...named, data } };
  }

  connection({ metadata, spec, status }: Connection): Connection {
    return {
      metadata: this.#value('metadata', metadata) as Connection['metadata'],
      spec: this.#value('spec', spec) as Connection['spec'],
      ...(status && { status: this.#value('status', status) as Connection['status'] & object }),
    };
  }

  #value(key: string, value: unknown): unknown {
    if (typeof value === 'string') return this.#string(key, value);
    if (Array.isArray(value)) return value.map((item) => this.#value(key, item));
    if (typeof value !== 'object' || value === null) return value;
    if (key === 'fieldsV1') return this.#fields(value);
    return this.#object(value as Record<string, unknown>);
  }

  /** Names first: what is free text in the same object may hold them. */
  #object(object: Record<string, unknown>): Record<string, unknown> {
    for (const [key, value] of Object.entries(object)) {
      if (typeof value === 'string' && SORTS[key] !== undefined) this.#rename(SORTS[key], value);
    }
    const kept = Object.entries(object).flatMap(([key, value]) => {
      if (key === 'labels') return [[key, this.#labels(value as Record<string, string>)]];
      if (key === 'name') return [[key, this.#nameOf(object, value as string)]];
      return KEPT.has(key) || SORTS[key] !== undefined ? [[key, this.#value(key, value)]] : [];
    });
    return Object.fromEntries(kept);
  }

  #labels(labels: Record<string, string>): Record<string, string> {
    const cluster = labels[REMOTE_CLUSTER_ID_LABEL];
    return cluster === undefined ? {} : { [REMOTE_CLUSTER_ID_LABEL]: this.#rename('cluster', cluster) };
  }

  #nameOf(object: Record<string, unknown>, name: string): string {
    return this.#rename('kind' in object ? 'gateway' : 'connection', name);
  }

  #string(key: string, value: string): string {
    const sort = SORTS[key];
    return sort === undefined ? this.#text(value) : this.#rename(sort, value);
  }

  /** Field paths of managedFields: keys of list items hold names. */
  #fields(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([path, child]) => {
        const isKey = path.startsWith('k:') || path.startsWith('f:') || path === '.';
        return [isKey ? this.#text(path) : 'f:anonymized', this.#fields(child)];
      }),
    );
  }

  #rename(sort: Sort, name: string): string {
    if (sort === 'interface' && /^liqo-tunnel\d*$/.test(name)) return name;
    if (sort === 'connection' && name.startsWith('gw-')) return `gw-${this.#rename('gateway', name.slice(3))}`;
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const count = (this.#counts.get(sort) ?? 0) + 1;
    this.#counts.set(sort, count);
    const other = `${sort}-${count}`;
    this.#names.set(name, other);
    this.#pattern = undefined;
    return other;
  }

  #text(text: string): string {
    this.#pattern ??= patternOf(this.#names.keys());
    const renamed = text.replace(this.#pattern, (name) => this.#names.get(name) ?? name);
    return renamed
      .replace(UUID, (uid) => this.#rename('uid', uid))
      .replace(IPV4, (address) => this.#rename('address', address))
      .replace(IPV6, (address) => this.#rename('address', address));
  }
}

type Sort = 'namespace' | 'connection' | 'gateway' | 'cluster' | 'interface' | 'uid' | 'address';

const SORTS: Readonly<Record<string, Sort>> = {
  namespace: 'namespace',
  connection: 'connection',
  gatewayName: 'gateway',
  remoteClusterId: 'cluster',
  interfaceId: 'interface',
  interfaceID: 'interface',
  interfaces: 'interface',
  uid: 'uid',
  connectionUid: 'uid',
  gatewayUid: 'uid',
};

/** Fields that are numbers, words of our own, times, or text in which names are looked for. */
const KEPT = new Set([
  ...['kind', 'value', 'gatewayEpoch', 'epoch', 'sequence', 'monotonicMs', 'observedAt', 'announcedAt', 'rttNs'],
  ...['minRttNs', 'consecutiveMisses', 'coalesced', 'reason', 'message', 'mode', 'function', 'eventId', 'outcome'],
  ...['before', 'after', 'throttledSince', 'decidedAt', 'latency', 'timestamp', 'lastTransitionTime', 'conditions'],
  ...['superseded', 'judgedBy', 'updateStatusIntervalMs'],
  ...['type', 'status', 'tunnels', 'listed', 'shown', 'resourceVersion', 'ownerReferences', 'creationTimestamp'],
  ...['deletionTimestamp', 'managedFields', 'manager', 'operation', 'subresource', 'time', 'fieldsV1', 'apiVersion'],
  ...['gatewayRef', 'controller', 'sinceUnixMs', 'nextDueAtUnixMs'],
]);

const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const IPV4 = /\b(?:\d{1,3}\.){3}\d{1,3}\b/g;
/** Times hold two colons at most. */
const IPV6 = /(?<![\w:.])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])/gi;

/** Whole words only: a cluster called `a` must not tear all text to pieces. Longer names first. */
function patternOf(names: Iterable<string>): RegExp {
  const sorted = [...names]
    .sort((a, b) => b.length - a.length)
    .map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return sorted.length === 0 ? /(?!)/g : new RegExp(`(?<![A-Za-z0-9])(?:${sorted.join('|')})(?![A-Za-z0-9])`, 'g');
}
