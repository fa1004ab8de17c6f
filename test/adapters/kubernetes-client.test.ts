import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { KubernetesClient, type KubernetesClientOptions } from '../../shared/adapters/kubernetes-client.ts';
import { storeErrorOf } from '../../shared/adapters/kubernetes-error.ts';
import { setupCrds } from '../../shared/adapters/kubernetes-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { StoreError, StoreErrorCode } from '../../shared/ports/connection-store.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const get = { method: 'GET', path: '/things' } as const;

function answer(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** A plain HTTP server in the place of an API server, and a client of it. */
async function start(
  listener: RequestListener,
  options: Partial<KubernetesClientOptions> & { user?: object; proxyUrl?: string; server?: string } = {},
) {
  const server = createServer(listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const port = (server.address() as { port: number }).port;
  const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-client-'));
  const { user = {}, proxyUrl, server: url = `http://127.0.0.1:${port}`, ...rest } = options;
  const cluster = { server: url, 'insecure-skip-tls-verify': true, ...(proxyUrl && { 'proxy-url': proxyUrl }) };
  const kubeconfig = join(folder, 'config');
  await writeFile(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }),
  );
  await writeFile(join(folder, 'token'), 'first\n');
  const client = await KubernetesClient.connect({ clock: systemClock, kubeconfig, ...rest });
  onTestFinished(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });
  return { client, server, port, folder };
}

async function refusal(call: Promise<unknown>): Promise<StoreError> {
  return call.then(
    () => expect.fail('the call resolved'),
    (error) => error,
  );
}

describe('a call', () => {
  test('sends JSON or text with its type and length, and reads the answer', async () => {
    const seen: IncomingMessage[] = [];
    const bodies: string[] = [];
    const { client } = await start(async (request, response) => {
      seen.push(request);
      bodies.push(Buffer.concat(await request.toArray()).toString());
      answer(response, 201, { ok: true });
    });

    const sent = await client.call({ method: 'POST', path: '/a', query: { force: true, name: 'a b' }, body: { µ: 1 } });
    await client.call({ method: 'PATCH', path: '/b', contentType: 'application/apply-patch+yaml', body: 'kind: B' });

    expect(sent).toEqual({ status: 201, body: { ok: true } });
    expect(bodies).toEqual(['{"µ":1}', 'kind: B']);
    expect(seen.map(({ url }) => url)).toEqual(['/a?force=true&name=a+b', '/b']);
    expect(seen[0]?.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': '8' });
    expect(seen[1]?.headers).toMatchObject({ 'content-type': 'application/apply-patch+yaml' });
  });

  test('has a deadline, also for a body that does not end', async () => {
    const clock = new VirtualClock();
    const { client, server } = await start((_, response) => void response.writeHead(200).write('{'), {
      ...{ clock, callTimeoutMs: 3_000 },
    });

    const call = refusal(client.call(get));
    await once(server, 'request');
    await clock.advance(3_000);

    expect(await call).toMatchObject({
      ...{ code: 'unavailable', status: 0 },
      message: 'GET /things: no answer within 3000 ms',
    });
  });

  test('ends with its signal', async () => {
    const { client, server } = await start(() => {});
    const stop = new AbortController();

    const call = refusal(client.call({ ...get, signal: stop.signal }));
    await once(server, 'request');
    stop.abort(new Error('shutting down'));

    expect(await call).toMatchObject({ code: 'unavailable', message: 'GET /things: given up by its caller' });
  });

  test('is unavailable where nobody listens', async () => {
    const { client, server } = await start(() => {});
    server.close();
    await once(server, 'close');

    expect(await refusal(client.call(get))).toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test('is sent again where the kept socket was closed meanwhile', async () => {
    let requests = 0;
    const { client } = await start((request, response) => {
      requests += 1;
      if (requests === 2) request.socket.destroy();
      else answer(response, 200, { requests });
    });

    await client.call(get);

    expect((await client.call(get)).body).toEqual({ requests: 3 });
  });

  test('shares a bounded number of kept sockets', async () => {
    const sockets = new Set<unknown>();
    let open = 0;
    let most = 0;
    const { client } = await start(
      (request, response) => {
        sockets.add(request.socket);
        most = Math.max(most, ++open);
        setImmediate(() => {
          open -= 1;
          answer(response, 200, {});
        });
      },
      { maxSockets: 3 },
    );

    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 20 }, () => client.call(get)));

    expect(sockets.size).toBe(3);
    expect(most).toBe(3);
  });

  test('finds a socket though watches hold many', async () => {
    const { client } = await start(
      (request, response) => {
        if (request.url === '/watch') response.writeHead(200).flushHeaders();
        else answer(response, 200, {});
      },
      { maxSockets: 1 },
    );

    const watches = await Promise.all([1, 2, 3].map(() => client.open({ method: 'GET', path: '/watch' })));

    expect((await client.call(get)).status).toBe(200);
    for (const watch of watches) watch.destroy();
  });
});

describe('a watch', () => {
  test('outlives the deadline of a call, and ends with its signal', async () => {
    const clock = new VirtualClock();
    const { client } = await start((_, response) => void response.writeHead(200).write('line\n'), { clock });
    const stop = new AbortController();

    const watch = await client.open({ ...get, signal: stop.signal });
    await clock.advance(60_000);
    expect(watch.destroyed).toBe(false);
    stop.abort(new Error('shutting down'));

    await expect(watch.toArray()).rejects.toThrow('shutting down');
  });

  test('is refused like a call', async () => {
    const { client } = await start((_, response) => answer(response, 410, { message: 'too old resource version' }));

    expect(await refusal(client.open(get))).toMatchObject({
      ...{ code: 'unavailable', status: 410 },
      message: 'GET /things: 410 too old resource version',
    });
  });
});

describe('credentials', () => {
  test('C18: a rotated token file is used at the first refusal, and ten seconds after at the latest', async () => {
    const clock = new VirtualClock();
    let valid = 'Bearer first';
    const { client, folder } = await start(
      ({ headers }, response) => answer(response, headers.authorization === valid ? 200 : 401, {}),
      { clock, user: { tokenFile: 'token' } },
    );
    expect((await client.call(get)).status).toBe(200);

    await writeFile(join(folder, 'token'), 'second\n');
    valid = 'Bearer second';
    expect((await client.call(get)).status).toBe(200);
    await writeFile(join(folder, 'token'), 'third\n');
    await clock.advance(10_001);
    valid = 'Bearer third';
    expect((await client.call(get)).status).toBe(200);
    valid = 'Bearer of another';
    expect(await refusal(client.call(get))).toMatchObject({ code: 'forbidden', status: 401 });
  });

  test('a token file that is gone is named', async () => {
    const { client, folder } = await start(() => {}, { user: { tokenFile: 'no-token' } });

    expect(await refusal(client.call(get))).toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining(`no credentials: ENOENT: no such file or directory, open '${folder}/no-token'`),
    });
  });

  test('a kubeconfig that does not lead to a cluster is named', async () => {
    const connectTo = (kubeconfig: string) => KubernetesClient.connect({ clock: systemClock, kubeconfig });
    await expect(connectTo('/nowhere/config')).rejects.toThrow('kubeconfig /nowhere/config: ENOENT');
    const { folder } = await start(() => {});
    await writeFile(join(folder, 'empty'), '{ "current-context": "x" }');
    await expect(connectTo(join(folder, 'empty'))).rejects.toThrow('no cluster for its current context "x"');
  });

  test('a kubeconfig that goes without TLS, and does not say that it means to, is refused by its server', async () => {
    const { folder } = await start(() => {});
    const text = await readFile(join(folder, 'config'), 'utf8');
    const kubeconfig = join(folder, 'no-tls');
    await writeFile(kubeconfig, text.replace('"insecure-skip-tls-verify":true', '"insecure-skip-tls-verify":false'));
    await expect(KubernetesClient.connect({ clock: systemClock, kubeconfig })).rejects.toThrow(
      /^kubeconfig .+ has server "http:\/\/127\.0\.0\.1:\d+" for its cluster "c": want https:\/\/, or insecure-skip-tls-verify: true/,
    );
  });

  test('of setup, who has no credentials is told so, and who may not read CRDs what to grant', async () => {
    const folder = join(import.meta.dirname, '../../infra/crds');
    const setUp = (client: KubernetesClient) => setupCrds(client, { folder, clock: systemClock }).catch(String);
    const { client: nobody } = await start(() => {}, { user: { tokenFile: 'no-token' } });
    const { client: stranger } = await start((_, response) => answer(response, 401, {}));
    const { client: guest } = await start((_, response) => answer(response, 403, {}));

    expect(await setUp(nobody)).toMatch(/^StoreError: .+: no credentials: ENOENT/);
    expect(await setUp(nobody)).not.toContain('grant');
    expect(await setUp(stranger)).not.toContain('grant');
    expect(await setUp(guest)).toContain('grant "get" on customresourcedefinitions');
  });
});

describe('the error of an answer', () => {
  const status = (message: string, details?: object) => JSON.stringify({ kind: 'Status', message, details });
  const undeclared = 'failed to create typed patch object (ns/c): .status.tunnels: field not declared in schema';

  test.for<[number, string, StoreErrorCode]>([
    [400, status('bad'), 'invalid'],
    [401, status('Unauthorized'), 'forbidden'],
    [403, status('forbidden: User "u"'), 'forbidden'],
    [404, status('connections "c" not found', { name: 'c' }), 'not-found'],
    [404, '404 page not found', 'schema'],
    [409, status('the object has been modified'), 'conflict'],
    [415, status('the body was in an unknown format'), 'invalid'],
    [422, status('is invalid'), 'invalid'],
    [429, status('Too many requests'), 'busy'],
    [500, status('etcd has trouble'), 'unavailable'],
    [500, status(undeclared), 'schema'],
    [500, status('failed to create typed patch object (ns/c): .status.value: expected string'), 'invalid'],
    [502, '<html>Bad gateway', 'unavailable'],
    [503, status('apiserver is shutting down'), 'busy'],
    [504, status('Timeout'), 'unavailable'],
  ])('%i %s is %s', ([code, text, expected]) => {
    const error = storeErrorOf('GET /x', { status: code, headers: {}, text }, 0);

    expect(error).toMatchObject({ code: expected, status: code, retryAfterMs: undefined });
    expect(error.message).toContain(`GET /x: ${code} `);
    expect(error.message.includes('run "wg-keepalive setup"')).toBe(expected === 'schema');
  });

  test.for<[string | undefined, object | undefined, number | undefined]>([
    ['2', undefined, 2_000],
    ['Thu, 01 Jan 2026 00:00:05 GMT', undefined, 5_000],
    ['Thu, 01 Jan 2015 00:00:00 GMT', undefined, 0],
    [undefined, { retryAfterSeconds: 3 }, 3_000],
    ['soon', undefined, undefined],
  ])('reads Retry-After %s, %o', ([header, details, expected]) => {
    const headers = header === undefined ? {} : { 'retry-after': header };
    const error = storeErrorOf('GET /x', { status: 429, headers, text: status('busy', details) }, Date.UTC(2026, 0, 1));

    expect(error.retryAfterMs).toBe(expected);
  });
});

test('goes through the proxy of the kubeconfig', async () => {
  const tunnels: string[] = [];
  const proxy = createServer();
  proxy.on('connect', (request, socket) => {
    tunnels.push(request.url ?? '');
    const target = connect(Number(request.url?.split(':')[1]), '127.0.0.1');
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    socket.pipe(target).pipe(socket);
    for (const end of [socket, target]) end.on('error', () => {});
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => void proxy.close());
  const proxyUrl = `http://127.0.0.1:${(proxy.address() as { port: number }).port}`;
  const { client, port } = await start((_, response) => answer(response, 200, { ok: true }), { proxyUrl });

  const calls = await Promise.all([client.call(get), client.call(get)]);

  expect(calls.map(({ body }) => body)).toEqual([{ ok: true }, { ok: true }]);
  expect(tunnels.length).toBeGreaterThan(0);
  expect(new Set(tunnels)).toEqual(new Set([`127.0.0.1:${port}`]));
});
