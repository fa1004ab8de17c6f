import { jetstream } from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import type { NatsConnection } from 'nats';
import { STATE_BUCKET } from '../domain/topology.ts';
import type { StateEntry, StateStore } from '../ports/state-store.ts';
import { API_TIMEOUT_MS } from './nats-config.ts';
import { busErrorOf, isFault, WRONG_LAST_SEQUENCE } from './nats-errors.ts';
import type { NatsLink } from './nats-link.ts';

/** The KV bucket `tunnel-state` on NATS. Rejects with BusError. */
export class NatsStateStore implements StateStore {
  readonly #link: NatsLink;
  #opened: { readonly connection: NatsConnection; readonly bucket: Promise<KV> } | undefined;

  constructor(link: NatsLink) {
    this.#link = link;
  }

  async get(key: string): Promise<StateEntry | undefined> {
    try {
      const entry = await (await this.#bucket()).get(key);
      return entry?.operation === 'PUT' ? { value: entry.json<unknown>(), revision: entry.revision } : undefined;
    } catch (error) {
      throw busErrorOf(`get ${key} of ${STATE_BUCKET}`, error);
    }
  }

  async put(key: string, value: unknown, expectedRevision?: number): Promise<number | undefined> {
    const json = JSON.stringify(value);
    try {
      const bucket = await this.#bucket();
      if (expectedRevision === undefined) return await bucket.put(key, json);
      if (expectedRevision === 0) return await bucket.create(key, json);
      return await bucket.update(key, json, expectedRevision);
    } catch (error) {
      if (isFault(error, ...WRONG_LAST_SEQUENCE)) return undefined;
      throw busErrorOf(`put ${key} of ${STATE_BUCKET}`, error);
    }
  }

  async delete(key: string): Promise<void> {
    try {
      await (await this.#bucket()).delete(key);
    } catch (error) {
      throw busErrorOf(`delete ${key} of ${STATE_BUCKET}`, error);
    }
  }

  #bucket(): Promise<KV> {
    const { connection } = this.#link;
    if (this.#opened?.connection !== connection) {
      // Bound without asking the server: a missing bucket shows at the first use, and heals when setup makes it.
      const bucket = new Kvm(jetstream(connection, { timeout: API_TIMEOUT_MS })).open(STATE_BUCKET, {
        bindOnly: true,
        allow_direct: true,
      });
      this.#opened = { connection, bucket };
    }
    return this.#opened.bucket;
  }
}
