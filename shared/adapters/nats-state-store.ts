import { PubHeaders } from '@nats-io/jetstream';
import type { Msg } from 'nats';
import { headers as newHeaders } from 'nats';
import { STATE_BUCKET } from '../domain/topology.ts';
import type { StateEntry, StateStore } from '../ports/state-store.ts';
import { API_TIMEOUT_MS } from './nats-config.ts';
import { busErrorOfFault, isWrongLastSequence } from './nats-errors.ts';
import type { NatsLink } from './nats-link.ts';
import { directAnswer } from './nats-message.ts';

/** @see https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-8.md */
const SUBJECT_PREFIX = `$KV.${STATE_BUCKET}.`;
const DIRECT_GET_PREFIX = `$JS.API.DIRECT.GET.KV_${STATE_BUCKET}.${SUBJECT_PREFIX}`;
const OPERATION_HEADER = 'KV-Operation';
const SEQUENCE_HEADER = 'Nats-Sequence';
const NOTHING = new Uint8Array(0);
const encoder = new TextEncoder();

/** `marker`: what is left of a key that was deleted. */
type Last = { readonly kind: 'value'; readonly message: Msg } | { readonly kind: 'marker'; readonly revision: number };

/**
 * The KV bucket `tunnel-state` on NATS, by its protocol: with two replicas every other event of tunnel-status reads it, and
 * the client's own bucket takes ten times as long for that. Rejects with BusError.
 */
export class NatsStateStore implements StateStore {
  readonly #link: NatsLink;

  constructor(link: NatsLink) {
    this.#link = link;
  }

  async get(key: string): Promise<StateEntry | undefined> {
    const last = await this.#last(key);
    if (last?.kind !== 'value') return undefined;
    return { value: last.message.json<unknown>(), revision: revisionOf(last.message) };
  }

  async put(key: string, value: unknown, expectedRevision?: number): Promise<number | undefined> {
    const data = encoder.encode(JSON.stringify(value));
    const revision = await this.#write(key, data, { expectedRevision });
    if (revision !== undefined || expectedRevision !== 0) return revision;
    // A key that was deleted does not exist, though it has a last revision.
    const last = await this.#last(key);
    return last?.kind === 'marker' ? this.#write(key, data, { expectedRevision: last.revision }) : undefined;
  }

  async delete(key: string): Promise<void> {
    await this.#write(key, NOTHING, { operation: 'DEL' });
  }

  async #last(key: string): Promise<Last | undefined> {
    const answer = await this.#link.requests.request(`${DIRECT_GET_PREFIX}${key}`, { timeoutMs: API_TIMEOUT_MS });
    const message = directAnswer(answer, `get ${key} of ${STATE_BUCKET}`);
    if (message === undefined) return undefined;
    const isMarker = message.headers.get(OPERATION_HEADER) !== '';
    return isMarker ? { kind: 'marker', revision: revisionOf(message) } : { kind: 'value', message };
  }

  /** @returns `undefined` where the key is not at the expected revision */
  async #write(
    key: string,
    data: Uint8Array,
    { expectedRevision, operation }: { readonly expectedRevision?: number | undefined; readonly operation?: 'DEL' },
  ): Promise<number | undefined> {
    const headers = newHeaders();
    if (operation !== undefined) headers.set(OPERATION_HEADER, operation);
    if (expectedRevision !== undefined)
      headers.set(PubHeaders.ExpectedLastSubjectSequenceHdr, String(expectedRevision));
    const answer = await this.#link.requests.publish(`${SUBJECT_PREFIX}${key}`, headers, data, API_TIMEOUT_MS);
    if (!('fault' in answer)) return answer.sequence;
    if (isWrongLastSequence(answer.fault)) return undefined;
    throw busErrorOfFault(`put ${key} of ${STATE_BUCKET}`, answer.fault);
  }
}

function revisionOf({ headers }: Msg): number {
  return Number(headers?.get(SEQUENCE_HEADER));
}
