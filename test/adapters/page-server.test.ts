import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type PageServer, type PageServerOptions, startPageServer } from '../../shared/adapters/page-server.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { PagePatch } from '../../shared/domain/page-patch.ts';
import { RefusedAction } from '../../shared/ports/page-source.ts';
import { eventually } from '../support/eventually.ts';

const CONTROL_TOKEN = 'c'.repeat(32);
const TOKEN = 't'.repeat(32);
const html = { contentType: 'text/html; charset=utf-8', body: Buffer.from('<!doctype html>') };

let server: PageServer;
afterEach(() => server.close());

/** A source whose parts are as large as a test likes; each `touch` makes a new revision. */
class Source {
  revision = 1;
  text = 'first';
  /** How often it was asked. */
  asked = 0;

  touch(text: string): void {
    this.text = text;
    this.revision += 1;
  }

  since(revision: number): PagePatch {
    this.asked += 1;
    if (revision === this.revision) return { revision };
    return { revision: this.revision, gone: [this.text], ...(revision === 0 && { reset: true as const }) };
  }
}

async function start(options: Partial<PageServerOptions> = {}, source = new Source()): Promise<Source> {
  server = await startPageServer({
    bind: { host: '127.0.0.1', port: 0 },
    files: new Map([['/', html]]),
    ...{ source, clock: systemClock, version: '1.2.3' },
    guard: { controlToken: CONTROL_TOKEN, hosts: [] },
    ...options,
  });
  return source;
}

type Answer = { readonly status: number; readonly headers: Record<string, unknown>; readonly body: string };

async function ask(
  path: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  const sent = request({ host: '127.0.0.1', port: server.port, path, method, headers });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  let text = '';
  for await (const chunk of answer) text += chunk;
  return { status: answer.statusCode, headers: answer.headers, body: text };
}

/** Reads events until the signal: what was told, one patch or beat after another. */
function listen(headers: Record<string, string> = {}) {
  const patches: PagePatch[] = [];
  let beats = 0;
  const socket = connect(server.port, '127.0.0.1');
  const extra = Object.entries({ host: `127.0.0.1:${server.port}`, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.write(`GET /events HTTP/1.1\r\n${extra.join('')}\r\n`);
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    // Chunked: sizes stand between events.
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (event.includes('event: beat')) beats += 1;
      else if (data !== undefined) patches.push(JSON.parse(data));
    }
  });
  return { socket, patches, beats: () => beats };
}

describe('events', () => {
  it('begin with everything, then tell what has changed, and that there is nothing new', async () => {
    const source = await start();
    const { patches, beats, socket } = listen();
    await eventually(() => patches.length === 1, 'the first patch');
    expect(patches[0]).toEqual({ revision: 1, reset: true, gone: ['first'] });
    source.touch('second');
    await eventually(() => patches.length === 2, 'the second patch');
    expect(patches[1]).toEqual({ revision: 2, gone: ['second'] });
    await eventually(() => beats() > 0, 'a sign of life');
    socket.destroy();
    await eventually(() => server.listeners() === 0, 'nobody to listen');
    const { asked } = source;
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(source.asked).toBe(asked); // nobody listens, nothing is done
  });

  it('pile up for nobody: a page that does not read is skipped, and gets the newest when it reads again', async () => {
    const source = await start();
    const { patches, socket } = listen();
    await eventually(() => patches.length === 1, 'the first patch');
    socket.pause();
    const big = 'x'.repeat(2_000_000);
    const pile = () => process.memoryUsage().external;
    const before = pile();
    for (let round = 0; round < 12; round++) {
      source.touch(`${round} ${big}`); // no two are told at once, and what the system buffers is soon full
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(pile() - before).toBeLessThan(6 * big.length);
    source.touch('newest');
    socket.resume();
    await eventually(() => patches.at(-1)?.gone?.[0] === 'newest', 'the newest state');
    expect(patches.length).toBeLessThan(8); // 14 without skipping
    socket.destroy();
  });

  it('are for so many pages at once, and no more', async () => {
    await start();
    const listeners = Array.from({ length: 64 }, () => listen());
    await eventually(() => server.listeners() === 64, '64 pages');
    expect((await ask('/events')).status).toBe(503);
    for (const { socket } of listeners) socket.destroy();
  });
});

describe('the page', () => {
  it('comes with a policy that lets in nothing from elsewhere, and says what the server lets it do', async () => {
    await start();
    const page = await ask('/');
    expect(page).toMatchObject({ status: 200, body: '<!doctype html>' });
    expect(page.headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self';/,
    );
    expect(page.headers['content-security-policy']).not.toMatch(/unsafe|http|\*/);
    expect(page.headers['x-content-type-options']).toBe('nosniff');
    expect(JSON.parse((await ask('/session')).body)).toEqual({ version: '1.2.3', hasPast: false });
    expect((await ask('/../package.json')).status).toBe(404);
    expect((await ask('/', { method: 'PUT' })).status).toBe(405);
  });

  it('is told to nobody who calls this machine by another name', async () => {
    await start();
    for (const path of ['/', '/events', '/session']) {
      expect((await ask(path, { headers: { host: 'evil.example' } })).status).toBe(421);
    }
    for (const host of ['localhost', '127.0.0.1:1234', '[::1]:80']) {
      expect((await ask('/', { headers: { host } })).status).toBe(200);
    }
  });

  it('with a token: is for who has it, as a cookie that the first visit sets', async () => {
    await start({ guard: { controlToken: CONTROL_TOKEN, token: TOKEN } });
    for (const path of ['/', '/events', '/session', '/?token=wrong']) expect((await ask(path)).status).toBe(401);
    const admitted = await ask(`/?token=${TOKEN}`);
    expect(admitted).toMatchObject({ status: 303, headers: { location: '/' } });
    const cookie = String(admitted.headers['set-cookie']);
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Path=\/$/);
    expect((await ask('/', { headers: { cookie: cookie.split(';')[0] as string } })).status).toBe(200);
    expect((await ask('/', { headers: { cookie: 'wg-keepalive-page=wrong' } })).status).toBe(401);
  });

  it('sends the cookie of a page behind TLS over TLS only', async () => {
    await start({ guard: { controlToken: CONTROL_TOKEN, token: TOKEN } });
    const admitted = await ask(`/?token=${TOKEN}`, { headers: { 'x-forwarded-proto': 'https' } });
    expect(String(admitted.headers['set-cookie'])).toMatch(/; SameSite=Strict; Path=\/; Secure$/);
  });

  it('says to a probe, which has no token, that it serves, and nothing else', async () => {
    await start({ guard: { controlToken: CONTROL_TOKEN, token: TOKEN } });
    expect(await ask('/healthz')).toMatchObject({ status: 200, body: 'ok\n' });
  });

  it.each(['//', '//[', 'http://', '//a:b'])('outlives a request for %s, by whomever', async (path) => {
    await start({ guard: { controlToken: CONTROL_TOKEN, token: TOKEN } });
    expect((await ask(path)).status).toBe(400);
    expect((await ask(`/?token=${TOKEN}`)).status).toBe(303);
  });
});

describe('controls', () => {
  const done: unknown[] = [];
  const controls = {
    async perform(action: unknown) {
      if (action === 'bad') throw new RefusedAction('no such action');
      if (action === 'worse') throw new TypeError('a bug');
      done.push(action);
      return 'well done';
    },
  };
  const post = (body: string, headers: Record<string, string> = {}) => {
    const origin = `http://127.0.0.1:${server.port}`;
    const host = `127.0.0.1:${server.port}`;
    return ask('/control', {
      method: 'POST',
      body,
      headers: { host, origin, 'x-wg-keepalive-control': CONTROL_TOKEN, ...headers },
    });
  };

  it('do what the page asks for, and say so', async () => {
    await start({ controls });
    expect(JSON.parse((await ask('/session')).body).controlToken).toBe(CONTROL_TOKEN);
    expect(await post('{"cut":["t"]}')).toMatchObject({ status: 200, body: '{"done":"well done"}' });
    expect(done).toEqual([{ cut: ['t'] }]);
  });

  it.each([
    ['from another origin', { origin: 'http://evil.example' }],
    ['without an origin', { origin: '' }],
    ['with another token', { 'x-wg-keepalive-control': 'd'.repeat(32) }],
    ['without a token', { 'x-wg-keepalive-control': '' }],
  ])('are closed to a request %s', async (_, headers) => {
    await start({ controls });
    const before = done.length;
    expect((await post('{}', headers)).status).toBe(403);
    expect(done.length).toBe(before);
  });

  it('answer in words what they do not do', async () => {
    await start({ controls });
    expect(await post('"bad"')).toMatchObject({ status: 400, body: 'no such action\n' });
    expect(await post('"worse"')).toMatchObject({ status: 500, body: 'failed: a bug\n' });
    expect(await post('{')).toMatchObject({ status: 400, body: expect.stringMatching(/^no JSON: /) });
    expect(await post(`"${'x'.repeat(20_000)}"`)).toMatchObject({ status: 400, body: 'longer than 16384 bytes\n' });
  });

  it('are not there where nothing may be changed', async () => {
    await start();
    expect((await post('{}')).status).toBe(404);
    expect(JSON.parse((await ask('/session')).body)).not.toHaveProperty('controlToken');
  });
});
