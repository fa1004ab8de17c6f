import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Check,
  type HealthServer,
  type HealthServerOptions,
  ListenError,
  startHealthServer,
} from '../../shared/adapters/health-server.ts';

const HOST = '127.0.0.1';
const running: HealthServer[] = [];

async function start(options: Partial<HealthServerOptions> = {}) {
  const server = await startHealthServer({
    bind: { host: HOST, port: 0 },
    readiness: [],
    metrics: { contentType: 'text/plain; version=0.0.4', render: async () => 'up 1\n' },
    ...options,
  });
  running.push(server);
  const get = (path: string, init?: RequestInit) => fetch(`http://${HOST}:${server.port}${path}`, init);
  return { server, get };
}

afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

describe('the health server', () => {
  it('is alive as long as it answers', async () => {
    const { get } = await start();
    const answer = await get('/healthz');
    expect([answer.status, await answer.text()]).toEqual([200, 'ok\n']);
  });

  it('is ready only while every check is, and says which is not and why', async () => {
    let reason: string | undefined = 'no connection to nats://127.0.0.1:4222';
    const nats: Check = { name: 'nats', check: () => (reason === undefined ? { ok: true } : { ok: false, reason }) };
    const { get } = await start({ readiness: [nats, { name: 'kubernetes', check: () => ({ ok: true }) }] });
    const before = await get('/readyz');
    expect(before.status).toBe(503);
    expect(await before.text()).toBe('nats: no connection to nats://127.0.0.1:4222\nkubernetes: ok\n');
    reason = undefined;
    expect((await get('/readyz')).status).toBe(200);
  });

  it('counts a check that throws as not ok', async () => {
    const { get } = await start({
      liveness: [
        {
          name: 'engine',
          check: () => {
            throw new Error('thread is gone');
          },
        },
      ],
    });
    const answer = await get('/healthz');
    expect([answer.status, await answer.text()]).toEqual([503, 'engine: check failed: thread is gone\n']);
  });

  it('serves metrics in their content type, and says so when they fail', async () => {
    const { get } = await start();
    const answer = await get('/metrics?x=1');
    expect([answer.headers.get('content-type'), await answer.text()]).toEqual(['text/plain; version=0.0.4', 'up 1\n']);
    const failing = await start({
      metrics: { contentType: 'text/plain', render: () => Promise.reject(new Error('no')) },
    });
    expect((await failing.get('/metrics')).status).toBe(500);
  });

  it('knows no other path and no other method', async () => {
    const { get } = await start();
    expect((await get('/')).status).toBe(404);
    expect((await get('/healthz', { method: 'POST' })).status).toBe(405);
  });

  it.each(['//', '//[', 'http://', '//a:b', '/%'])('outlives a request for %s', async (path) => {
    const { server, get } = await start();
    const sent = request({ host: HOST, port: server.port, path }).end();
    const [answer] = await once(sent, 'response');
    answer.resume();
    expect(answer.statusCode).toBe(404);
    expect((await get('/healthz')).status).toBe(200);
  });

  it('names the address and the cause when the port is taken', async () => {
    const { server } = await start();
    const error = await start({ bind: { host: HOST, port: server.port } }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(ListenError);
    expect(error).toMatchObject({
      code: 'EADDRINUSE',
      message: `cannot listen on ${HOST}:${server.port}: another process has the port`,
    });
  });

  it('closes within its bound although a client holds a connection', async () => {
    const { server } = await start();
    const client = connect(server.port, HOST);
    client.on('error', () => undefined);
    await new Promise((resolve) => client.once('connect', resolve));
    client.write('GET /healthz HTTP/1.1\r\n'); // never finished
    const closed = new Promise((resolve) => client.once('close', resolve));
    await server.close(50);
    await closed;
    expect(client.destroyed).toBe(true);
  });
});
