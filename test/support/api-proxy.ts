import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

/** A request as the rule of an {@link ApiProxy} sees it. */
export type ProxiedRequest = { readonly method: string; readonly url: string; readonly body: string };

/** What the proxy does with a request: waits, then passes it on, or answers in the API server's place. */
export type Treatment = {
  readonly delayMs?: number;
  readonly answer?: { readonly status: number; readonly headers?: Record<string, string>; readonly body?: object };
};

/** Plain HTTP on loopback in front of a real API server: a test makes it slow, or lets it refuse. */
export class ApiProxy implements AsyncDisposable {
  readonly url: string;
  /** Requests that were passed on, in the order in which they came. */
  readonly passed: ProxiedRequest[] = [];
  /** Says what to do with each request; without it everything passes at once. */
  treat: (request: ProxiedRequest) => Treatment = () => ({});
  readonly #server: Server;
  readonly #target: string;
  readonly #agent: Agent;
  readonly #watches = new Set<ServerResponse>();
  readonly #end = new AbortController();

  private constructor(server: Server, target: string, ca: string) {
    this.#server = server;
    this.#target = target;
    this.#agent = new Agent({ keepAlive: true, ca });
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    // What fails here is a caller that went away, or this proxy.
    server.on('request', (request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  /** @param ca - PEM of the authority that the API server's certificate comes from */
  static async start(target: string, ca: string): Promise<ApiProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ApiProxy(server, target, ca);
  }

  /** Ends all watches, as a restart of the API server does. */
  cutWatches(): void {
    for (const watch of this.#watches) watch.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    this.#server.close();
    this.#server.closeAllConnections();
    this.#agent.destroy();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    const body = await buffer(request);
    const seen = { method, url, body: body.toString() };
    const { delayMs = 0, answer } = this.treat(seen);
    if (delayMs > 0) await sleep(delayMs, undefined, { signal: this.#end.signal });
    if (answer) {
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
      response.end(JSON.stringify(answer.body ?? { kind: 'Status', code: answer.status, message: 'by the test' }));
      return;
    }
    this.passed.push(seen);
    const { host: _, ...headers } = request.headers;
    const sent = httpsRequest(new URL(url, this.#target), { method, headers, agent: this.#agent }, (answered) => {
      if (response.destroyed) return void answered.resume(); // its caller has given up
      response.writeHead(answered.statusCode ?? 502, answered.headers).flushHeaders(); // a watch may say nothing for long
      pipeline(answered, response, () => {}); // the end of either is the end of the other
    });
    sent.on('error', () => response.destroy());
    if (url.includes('watch=')) {
      this.#watches.add(response);
      // A call that its caller gives up goes on at the server all the same; a watch ends with its reader.
      response.once('close', () => {
        this.#watches.delete(response);
        sent.destroy();
      });
    }
    sent.end(body);
  }
}
