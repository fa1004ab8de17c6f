import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../ports/clock.ts';
import { type PageControls, type PagePast, type PageSource, RefusedAction } from '../ports/page-source.ts';
import { ListenError } from './health-server.ts';
import { PageClients } from './page-clients.ts';
import { COOKIE, type GuardOptions, PageGuard } from './page-guard.ts';

export type PageFile = { readonly contentType: string; readonly body: Uint8Array };

export type PageServerOptions = {
  readonly bind: { readonly host: string; readonly port: number };
  /** By path: `/` is the page. */
  readonly files: ReadonlyMap<string, PageFile>;
  readonly source: PageSource;
  readonly clock: Clock;
  /** Without it nothing can be changed from the page. */
  readonly controls?: PageControls;
  /** Without it the page shows the present only. */
  readonly past?: PagePast;
  readonly guard: GuardOptions;
  /** Of the program, for the foot of the page. */
  readonly version: string;
};

export type PageServer = {
  readonly port: number;
  /** Pages that listen now. */
  readonly listeners: () => number;
  readonly close: () => Promise<void>;
};

/** Everything comes from here, nothing may frame it, and no markup that slipped through could run. */
const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

const MAX_BODY_BYTES = 16 * 1024;
const MAX_LISTENERS = 64;
const JSON_TYPE = 'application/json';
const TEXT_TYPE = 'text/plain; charset=utf-8';

/** Serves the page and what it asks for. @throws ListenError */
export async function startPageServer(options: PageServerOptions): Promise<PageServer> {
  const { bind, source, clock } = options;
  const clients = new PageClients(source, clock);
  const handler = new Handler(options, clients);
  const server = createServer((request, response) => void handler.answer(request, response));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => reject(new ListenError(`${bind.host}:${bind.port}`, cause)));
    server.listen(bind, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    listeners: () => clients.size,
    async close() {
      clients.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

class Handler {
  readonly #options: PageServerOptions;
  readonly #clients: PageClients;
  readonly #guard: PageGuard;

  constructor(options: PageServerOptions, clients: PageClients) {
    this.#options = options;
    this.#clients = clients;
    this.#guard = new PageGuard(options.guard);
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
    const url = URL.parse(request.url ?? '/', 'http://page'); // a throw in here would end the process
    if (url === null) return reply(response, 400, 'that is no path');
    if (!this.#guard.isOurHost(request)) return reply(response, 421, `this page is not called ${request.headers.host}`);
    if (url.pathname === '/healthz') return reply(response, 200, 'ok'); // whoever asks has no token and learns nothing
    const given = url.searchParams.get('token');
    if (url.pathname === '/' && given !== null && this.#guard.isToken(given)) return admit(request, response, given);
    if (!this.#guard.mayLook(request))
      return reply(
        response,
        401,
        'open /?token=… with the token that the program told, or that its --ui-token-file holds',
      );
    if (request.method === 'POST') return this.#post(url.pathname, request, response);
    if (request.method !== 'GET' && request.method !== 'HEAD') return reply(response, 405, 'GET, HEAD or POST');
    return this.#get(url.pathname, response);
  }

  #get(path: string, response: ServerResponse) {
    if (path === '/events') {
      if (this.#clients.size >= MAX_LISTENERS) return reply(response, 503, `${MAX_LISTENERS} pages listen already`);
      return this.#clients.add(response);
    }
    if (path === '/session') return replyJson(response, 200, this.#session());
    const file = this.#options.files.get(path);
    if (file === undefined) return reply(response, 404, `there is no ${path}`);
    response.writeHead(200, { 'content-type': file.contentType }).end(file.body);
  }

  #session() {
    const { controls, past, guard, version } = this.#options;
    return { version, hasPast: past !== undefined, ...(controls && { controlToken: guard.controlToken }) };
  }

  async #post(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { controls, past } = this.#options;
    try {
      if (path === '/control' && controls !== undefined) {
        if (!this.#guard.mayChange(request)) return reply(response, 403, 'only the page itself may do this');
        const done = await controls.perform(await readJson(request));
        return replyJson(response, 200, { done });
      }
      if (path === '/past' && past !== undefined) {
        return replyJson(response, 200, await past.read(await readJson(request), closed(response)));
      }
      reply(response, 404, `there is no ${path} here`);
    } catch (error) {
      if (!(error instanceof RefusedAction)) return reply(response, 500, `failed: ${(error as Error).message}`);
      reply(response, 400, error.message);
    }
  }
}

/** The token goes from the address bar into a cookie that no script reads and no other site sends. */
function admit({ headers }: IncomingMessage, response: ServerResponse, token: string): void {
  // Where TLS ends before this server: not to be sent in the clear later.
  const secure = headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
  const cookie = `${COOKIE}=${token}; HttpOnly; SameSite=Strict; Path=/${secure}`;
  response.writeHead(303, { location: '/', 'set-cookie': cookie }).end();
}

function reply(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(status, { 'content-type': TEXT_TYPE }).end(`${text}\n`);
}

function replyJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': JSON_TYPE }).end(JSON.stringify(value));
}

/** @throws RefusedAction */
async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new RefusedAction(`longer than ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch (cause) {
    throw new RefusedAction(`no JSON: ${(cause as Error).message}`, { cause });
  }
}

function closed(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  return gone.signal;
}
