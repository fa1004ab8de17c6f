import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a part of the process says of itself. */
export type CheckResult = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/** A named part; asked on each request, so it answers from memory. One that throws is not ok. */
export type Check = { readonly name: string; readonly check: () => CheckResult };

export type HealthServerOptions = {
  /** Without a host: every address of the machine. Port 0: any free one. */
  readonly bind: { readonly host?: string; readonly port: number };
  /** Beside the event loop, which turns if it answers at all. @defaultValue none */
  readonly liveness?: readonly Check[];
  readonly readiness: readonly Check[];
  readonly metrics: { readonly contentType: string; readonly render: () => Promise<string> };
};

export type HealthServer = {
  /** The port it listens on. */
  readonly port: number;
  /** Answers what was asked within `timeoutMs` (1 s unless told), then lets go of every connection. */
  readonly close: (timeoutMs?: number) => Promise<void>;
};

/** The metrics address cannot be listened on. */
export class ListenError extends Error {
  /** The system's code: `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`. */
  readonly code: string;

  constructor(address: string, cause: NodeJS.ErrnoException) {
    const why = cause.code === 'EADDRINUSE' ? 'another process has the port' : cause.message;
    super(`cannot listen on ${address}: ${why}`, { cause });
    this.name = 'ListenError';
    this.code = cause.code ?? 'UNKNOWN';
  }
}

const CLOSE_TIMEOUT_MS = 1_000;
const TEXT = 'text/plain; charset=utf-8';

/**
 * Serves `/healthz`, `/readyz` (one line a check, 503 if any is not ok) and `/metrics`.
 *
 * @throws ListenError
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const pathname = URL.parse(request.url ?? '/', 'http://localhost')?.pathname; // a throw in here would end the process
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return reply(response, 405, 'GET or HEAD only\n');
    }
    if (pathname === '/healthz') return replyChecks(response, options.liveness ?? []);
    if (pathname === '/readyz') return replyChecks(response, options.readiness);
    if (pathname === '/metrics') return void replyMetrics(response, options.metrics);
    reply(response, 404, 'there are /healthz, /readyz and /metrics\n');
  });
  await listen(server, options.bind);
  return {
    port: (server.address() as AddressInfo).port,
    close: (timeoutMs = CLOSE_TIMEOUT_MS) => close(server, timeoutMs),
  };
}

function replyChecks(response: ServerResponse, checks: readonly Check[]): void {
  const results = checks.map((check) => ({ name: check.name, ...ask(check) }));
  const lines = results.map((result) => `${result.name}: ${result.ok ? 'ok' : result.reason}\n`);
  const ok = results.every((result) => result.ok);
  reply(response, ok ? 200 : 503, lines.join('') || 'ok\n');
}

function ask({ check }: Check): CheckResult {
  try {
    return check();
  } catch (error) {
    return { ok: false, reason: `check failed: ${error instanceof Error ? error.message : error}` };
  }
}

async function replyMetrics(response: ServerResponse, metrics: HealthServerOptions['metrics']): Promise<void> {
  try {
    reply(response, 200, await metrics.render(), metrics.contentType);
  } catch (error) {
    reply(response, 500, `metrics failed: ${error instanceof Error ? error.message : error}\n`);
  }
}

function reply(response: ServerResponse, status: number, body: string, contentType = TEXT): void {
  response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' }).end(body);
}

async function listen(server: Server, { host, port }: HealthServerOptions['bind']): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => reject(new ListenError(`${host ?? ''}:${port}`, cause)));
    server.listen({ port, ...(host !== undefined && { host }) }, resolve);
  });
}

async function close(server: Server, timeoutMs: number): Promise<void> {
  const timer = setTimeout(() => server.closeAllConnections(), timeoutMs);
  await new Promise((resolve) => server.close(resolve));
  clearTimeout(timer);
}
