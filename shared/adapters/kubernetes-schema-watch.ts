import { CONNECTION_API_VERSION } from '../domain/connection.ts';
import type { Clock } from '../ports/clock.ts';
import { StoreError } from '../ports/connection-store.ts';
import type { KubernetesClient } from './kubernetes-client.ts';

/** What stands between the functions and the status of Connections. */
export type SchemaHealth = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/** How it is, and how long the API server wants to be left alone. */
type Answer = { readonly health: SchemaHealth; readonly retryAfterMs: number };

type SchemaWatchOptions = {
  readonly clock: Clock;
  /** Told each time that the answer is another one. */
  readonly onChange: (health: SchemaHealth) => void;
};

const CHECK_EVERY_MS = 10_000;
const RETRY_MS = 1_000;
const SETUP = 'run "wg-keepalive setup"';
/** Every authenticated user may read it; CRDs themselves need a right that the functions do not have. */
const SCHEMA_PATH = `/openapi/v3/apis/${CONNECTION_API_VERSION}`;

type Property = {
  readonly properties?: Readonly<Record<string, Property>>;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
};
type OpenApi = { readonly components?: { readonly schemas?: Readonly<Record<string, Property>> } };

/**
 * Knows whether the API server answers, lets us in, and serves a Connection whose `status.tunnels` is a map by
 * interface: with any other schema the entries of two field managers overwrite each other in silence.
 *
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3
 */
export class KubernetesSchemaWatch {
  readonly #client: KubernetesClient;
  readonly #options: SchemaWatchOptions;
  #health: SchemaHealth = { ok: false, reason: 'not asked yet' };
  #isSchemaRight: boolean | undefined;

  constructor(client: KubernetesClient, options: SchemaWatchOptions) {
    this.#client = client;
    this.#options = options;
  }

  health(): SchemaHealth {
    return this.#health;
  }

  /** By the last answer of the API server, whether it answers now or not; `undefined` before the first. */
  isSchemaRight(): boolean | undefined {
    return this.#isSchemaRight;
  }

  /** Asks until `signal` aborts: every 10 s while all is well, every second while it is not. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { health: next, retryAfterMs } = await this.#ask(signal);
      if (signal.aborted) return;
      const isNews = JSON.stringify(next) !== JSON.stringify(this.#health);
      this.#health = next;
      if (isNews) this.#options.onChange(next);
      await this.#options.clock
        .sleep(next.ok ? CHECK_EVERY_MS : Math.max(RETRY_MS, retryAfterMs), signal)
        .catch(() => {});
    }
  }

  async #ask(signal: AbortSignal): Promise<Answer> {
    try {
      const { body } = await this.#client.call<OpenApi>({ method: 'GET', path: SCHEMA_PATH, signal });
      const health = healthOf(body);
      this.#isSchemaRight = health.ok;
      return { health, retryAfterMs: 0 };
    } catch (error) {
      if (error instanceof StoreError && error.code === 'not-found') this.#isSchemaRight = false;
      const retryAfterMs = (error instanceof StoreError && error.retryAfterMs) || 0;
      return { health: { ok: false, reason: `${this.#client.server}: ${(error as Error).message}` }, retryAfterMs };
    }
  }
}

function healthOf({ components }: OpenApi): SchemaHealth {
  const connection = Object.entries(components?.schemas ?? {}).find(([name]) => name.endsWith('.Connection'))?.[1];
  if (connection === undefined) return { ok: false, reason: `the CRD of Connection is missing: ${SETUP}` };
  const tunnels = connection.properties?.status?.properties?.tunnels;
  if (tunnels === undefined) return { ok: false, reason: `the CRD of Connection has no status.tunnels: ${SETUP}` };
  const keys = tunnels['x-kubernetes-list-map-keys']?.join();
  if (tunnels['x-kubernetes-list-type'] === 'map' && keys === 'interfaceID') return { ok: true };
  return { ok: false, reason: `status.tunnels of Connection is not a map by interfaceID: ${SETUP}` };
}
