import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import type { Clock } from '../ports/clock.ts';
import { StoreError } from '../ports/connection-store.ts';
import { type Credentials, KubernetesAccess } from './kubernetes-access.ts';
import { storeErrorOf } from './kubernetes-error.ts';

export type KubernetesClientOptions = {
  readonly clock: Clock;
  /** Kubeconfig file; without it: in-cluster, else KUBECONFIG, else `~/.kube/config`. */
  readonly kubeconfig?: string;
  /** How long a call may take, or a watch until it is open. @defaultValue 10 s */
  readonly callTimeoutMs?: number;
  /** Bound of the sockets for calls; each open watch has one more. @defaultValue 16 */
  readonly maxSockets?: number;
};

export type ApiRequest = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute path of the API, names in it encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  /** Text goes as it is, all else as JSON. */
  readonly body?: unknown;
  /** @defaultValue application/json */
  readonly contentType?: string;
  readonly signal?: AbortSignal | undefined;
};

export type ApiResponse<T> = { readonly status: number; readonly body: T };

const DEFAULT_CALL_TIMEOUT_MS = 10_000;
const DEFAULT_MAX_SOCKETS = 16;
const TCP_KEEP_ALIVE_MS = 30_000;

/**
 * The one way to the API server: a pool of kept sockets, a deadline on every call, credentials that follow their files.
 * Credentials are client-node's business, requests are not: it opens a pool a call and drops what the CRD says.
 */
export class KubernetesClient {
  readonly #access: KubernetesAccess;
  readonly #clock: Clock;
  readonly #callTimeoutMs: number;
  readonly #maxSockets: number;
  readonly #pool: HttpAgent;
  #proxy: HttpAgent | undefined;
  #watches = 0;

  private constructor(access: KubernetesAccess, options: KubernetesClientOptions) {
    this.#access = access;
    this.#clock = options.clock;
    this.#callTimeoutMs = options.callTimeoutMs ?? DEFAULT_CALL_TIMEOUT_MS;
    this.#maxSockets = options.maxSockets ?? DEFAULT_MAX_SOCKETS;
    const Pool = access.server.startsWith('http:') ? HttpAgent : HttpsAgent;
    this.#pool = new Pool({ keepAlive: true, keepAliveMsecs: TCP_KEEP_ALIVE_MS, maxSockets: this.#maxSockets });
  }

  /** @throws Error if there is no way to a cluster; nothing is sent yet */
  static async connect(options: KubernetesClientOptions): Promise<KubernetesClient> {
    return new KubernetesClient(await KubernetesAccess.load(options.clock, options.kubeconfig), options);
  }

  /** `https://host:port`, and a path behind some proxies. */
  get server(): string {
    return this.#access.server;
  }

  /**
   * Sends a request and reads the whole answer.
   *
   * @throws StoreError on anything but a 2xx in time
   */
  async call<T>(request: ApiRequest): Promise<ApiResponse<T>> {
    return this.#inTime(request, async (signal) => {
      const response = await this.#send(request, signal);
      return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) as T };
    });
  }

  /**
   * Opens a watch. The answer's body is the caller's to read or to destroy; the request's signal ends it too.
   *
   * @throws StoreError on anything but a 2xx in time
   */
  async open(request: ApiRequest): Promise<IncomingMessage> {
    this.#countWatches(1);
    try {
      const response = await this.#inTime(request, (signal) => this.#send(request, signal));
      const end = () => response.destroy(request.signal?.reason);
      request.signal?.addEventListener('abort', end);
      if (request.signal?.aborted) end();
      response.once('close', () => {
        request.signal?.removeEventListener('abort', end);
        this.#countWatches(-1);
      });
      return response;
    } catch (error) {
      this.#countWatches(-1);
      throw error;
    }
  }

  /** Ends all that is under way and closes every socket. */
  close(): void {
    this.#pool.destroy();
    this.#proxy?.destroy();
  }

  /** A watch holds its socket for long: without a place of its own, many would starve the calls. */
  #countWatches(by: number): void {
    this.#watches += by;
    this.#pool.maxSockets = this.#maxSockets + this.#watches;
  }

  async #inTime<T>(request: ApiRequest, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = request;
    const stop = new AbortController();
    const giveUp = () => stop.abort(new Error('given up by its caller', { cause: signal?.reason }));
    const timer = this.#clock.after(this.#callTimeoutMs, () => {
      stop.abort(new Error(`no answer within ${this.#callTimeoutMs} ms`));
      this.#dropIdleSockets();
    });
    if (signal?.aborted) giveUp();
    signal?.addEventListener('abort', giveUp);
    try {
      return await run(stop.signal);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      const cause = stop.signal.aborted ? (stop.signal.reason as Error) : (error as Error);
      throw new StoreError('unavailable', `${nameOf(request)}: ${cause.message}`, { cause });
    } finally {
      timer.cancel();
      signal?.removeEventListener('abort', giveUp);
    }
  }

  /** Sends again, once, where a token has been rotated, or a kept socket turns out to be closed. */
  async #send(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const response = await this.#attempt(request, signal);
    if (response.statusCode !== 401) return this.#accepted(request, response);
    const refusal = await refusalOf(request, response, this.#clock.unixMs());
    if (!(await this.#access.renew())) throw refusal;
    return this.#accepted(request, await this.#attempt(request, signal));
  }

  async #accepted(request: ApiRequest, response: IncomingMessage): Promise<IncomingMessage> {
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return response;
    throw await refusalOf(request, response, this.#clock.unixMs());
  }

  async #attempt(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const credentials = await this.#credentials(request);
    signal.throwIfAborted();
    return transmit(this.#urlOf(request), request, { ...credentials, signal, agent: this.#agentFor(credentials) });
  }

  async #credentials(request: ApiRequest): Promise<Credentials> {
    try {
      return await this.#access.credentials();
    } catch (error) {
      const message = `${nameOf(request)}: no credentials: ${(error as Error).message}`;
      throw new StoreError('forbidden', message, { cause: error });
    }
  }

  /** The pool keeps sockets of different certificates apart; a proxy has an agent of its own, bound like ours. */
  #agentFor({ proxyAgent }: Credentials): HttpAgent {
    if (proxyAgent === undefined) return this.#pool;
    this.#proxy = Object.assign(proxyAgent, { maxSockets: this.#pool.maxSockets, keepAlive: true });
    return this.#proxy;
  }

  #urlOf({ path, query = {} }: ApiRequest): URL {
    const url = new URL(this.#access.server + path);
    for (const [key, value] of Object.entries(query)) url.searchParams.set(key, String(value));
    return url;
  }

  /** After a time-out kept sockets are likely to be half-open: each would cost a time-out of its own. */
  #dropIdleSockets(): void {
    for (const { freeSockets } of [this.#pool, this.#proxy ?? this.#pool]) {
      for (const socket of Object.values(freeSockets).flat()) socket?.destroy();
    }
  }
}

type Sending = Omit<Credentials, 'proxyAgent'> & { readonly signal: AbortSignal; readonly agent: HttpAgent };

function transmit(url: URL, request: ApiRequest, sending: Sending, isRetry = false): Promise<IncomingMessage> {
  const { method, body, contentType = 'application/json' } = request;
  const payload = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
  const headers = {
    accept: 'application/json',
    'user-agent': 'wg-keepalive',
    ...(payload !== undefined && { 'content-type': contentType, 'content-length': Buffer.byteLength(payload) }),
    ...sending.headers,
  };
  const send = url.protocol === 'http:' ? httpRequest : httpsRequest;
  return new Promise((resolve, reject) => {
    const sent = send(url, { ...sending, method, headers }, resolve);
    sent.once('error', (error: NodeJS.ErrnoException) => {
      // The server closed a kept socket as we took it. Sending twice is safe: writes carry preconditions or are applies.
      const wasClosed = sent.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
      if (!wasClosed || isRetry || sending.signal.aborted) reject(error);
      else resolve(transmit(url, request, sending, true));
    });
    sent.end(payload);
  });
}

async function refusalOf(request: ApiRequest, response: IncomingMessage, unixMs: number): Promise<StoreError> {
  const { statusCode: status = 0, headers } = response;
  return storeErrorOf(nameOf(request), { status, headers, text: await text(response) }, unixMs);
}

function nameOf({ method, path }: ApiRequest): string {
  return `${method} ${path}`;
}
