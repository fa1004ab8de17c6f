import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import type { ApiRequest } from '../../shared/adapters/kubernetes-client.ts';
import { Reflector, type WatchTiming } from '../../shared/adapters/kubernetes-reflector.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const timing: WatchTiming = { windowMs: 25_000, graceMs: 5_000, backOffMs: 200, maxBackOffMs: 10_000 };

/** The answer to a watch, written by the test. */
class FakeWatch extends PassThrough {
  complete = false;
  readonly query: ApiRequest['query'];

  constructor({ query, signal }: ApiRequest) {
    super();
    this.query = query;
    this.on('error', () => {}); // the reader sees it
    signal?.addEventListener('abort', () => this.destroy());
  }

  tell(...events: readonly object[]): void {
    this.write(events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  }

  /** As at the end of a window. */
  close(): void {
    this.complete = true;
    this.end();
  }
}

type Answer = object | StoreError;

/** An API server that answers lists from a script, the last answer for ever, and hands each watch to the test. */
class FakeApi {
  readonly lists: ApiRequest[] = [];
  readonly watches: FakeWatch[] = [];
  readonly answers: Answer[];
  refusal: StoreError | undefined;

  constructor(...answers: Answer[]) {
    this.answers = answers;
  }

  async call<T>(request: ApiRequest): Promise<{ status: number; body: T }> {
    this.lists.push(request);
    const answer = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
    if (answer instanceof Error) throw answer;
    return { status: 200, body: answer as T };
  }

  async open(request: ApiRequest): Promise<IncomingMessage> {
    if (this.refusal) throw this.refusal;
    const watch = new FakeWatch(request);
    this.watches.push(watch);
    return watch as unknown as IncomingMessage;
  }

  get watch(): FakeWatch {
    return this.watches.at(-1) as FakeWatch;
  }
}

function object(name: string, resourceVersion: number, uid = `uid-of-${name}`): object {
  const metadata = { namespace: 'ns', name, uid, resourceVersion: String(resourceVersion), managedFields: [] };
  return { metadata, spec: { note: 'é' } };
}

function list(resourceVersion: number, ...items: object[]): object {
  return { metadata: { resourceVersion: String(resourceVersion) }, items };
}

function bookmark(resourceVersion: number): object {
  return { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(resourceVersion) } } };
}

const expired = { type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old resource version: 1 (9)' } };

async function start(api: FakeApi, listener: (line: string) => Promise<void> = async () => {}) {
  const clock = new VirtualClock();
  const told: string[] = [];
  const stop = new AbortController();
  const reflector = new Reflector({
    ...{ client: api, clock, random: () => 0, timing, kind: 'connections', namespace: 'ns' },
    tell: async ({ type, object: { metadata } }) => {
      const line = `${type} ${metadata.name} ${metadata.resourceVersion}`;
      told.push(line);
      await listener(line);
    },
  });
  const run = reflector.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await run;
  });
  await clock.settle();
  return { clock, told, reflector, stop, run };
}

test('lists page by page, tells the oldest first, and watches from there', async () => {
  const first = { metadata: { resourceVersion: '9', continue: 'page 2' }, items: [object('a', 8), object('b', 2)] };
  const api = new FakeApi(first, list(9, object('c', 5)));

  const { told, reflector } = await start(api);

  expect(told).toEqual(['ADDED b 2', 'ADDED c 5', 'ADDED a 8']);
  expect(api.lists.map(({ query }) => query)).toEqual([{ limit: 500 }, { limit: 500, continue: 'page 2' }]);
  expect(api.lists[0]?.path).toBe('/apis/networking.liqo.io/v1beta1/namespaces/ns/connections');
  expect(api.watch.query).toEqual({
    ...{ watch: true, allowWatchBookmarks: true },
    ...{ resourceVersion: '9', timeoutSeconds: 25 },
  });
  expect(reflector.health()).toEqual({ live: true });
});

test('tells what the watch tells, once, however it is cut into chunks', async () => {
  const api = new FakeApi(list(9, object('a', 8)));
  const { clock, told } = await start(api);
  const bytes = Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object: object('a', 10) })}\n`);

  for (const byte of bytes) api.watch.write(Buffer.of(byte)); // also in the middle of the é
  await clock.settle();
  api.watch.tell(
    { type: 'MODIFIED', object: object('a', 10) },
    { type: 'ADDED', object: object('b', 11) },
    { type: 'ADDED', object: object('a', 12, 'another uid') },
    { type: 'DELETED', object: object('b', 13) },
    { type: 'DELETED', object: object('b', 13) },
  );
  await clock.settle();

  expect(told.slice(1)).toEqual(['MODIFIED a 10', 'ADDED b 11', 'DELETED a 10', 'ADDED a 12', 'DELETED b 13']);
});

test('takes a watch up where the last one ended, bookmarks included, without a list or a gap in its health', async () => {
  const api = new FakeApi(list(9));
  const { clock, reflector } = await start(api);

  api.watch.tell({ type: 'ADDED', object: object('a', 10) }, bookmark(17));
  await clock.advance(25_000);
  api.watch.close();
  await clock.settle();

  expect(api.watches.map(({ query }) => query?.resourceVersion)).toEqual(['9', '17']);
  expect(api.lists.length).toBe(1);
  expect(reflector.health()).toEqual({ live: true });
});

test.for<[string, (api: FakeApi) => void]>([
  ['an event says 410', (api) => api.watch.tell(expired)],
  [
    'the request gets a 410',
    (api) => {
      api.refusal = new StoreError('unavailable', 'GET: 410 too old resource version', { status: 410 });
      api.watch.destroy();
    },
  ],
  ['a line is no JSON', (api) => api.watch.write('{"type":"MODIFIED","obj\n')],
  ['an event has no object', (api) => api.watch.tell({ type: 'MODIFIED' })],
  [
    'it ends within an event',
    (api) => {
      api.watch.write('{"type":"MOD');
      api.watch.close();
    },
  ],
])('lists again where %s, and tells what was missed', async ([, spoil]) => {
  const api = new FakeApi(list(9, object('a', 7), object('b', 8)), list(20, object('b', 12), object('c', 15)));
  const { clock, told, reflector } = await start(api);
  told.length = 0;

  spoil(api);
  await clock.advance(199);
  expect(reflector.health()).toMatchObject({
    live: false,
    reason: expect.stringContaining('no watch of connections in namespace ns: '),
  });
  if (api.refusal) await clock.advance(400); // one more pause: the refusal comes after the broken watch
  api.refusal = undefined;
  await clock.advance(500);

  expect(api.lists.length).toBe(2);
  expect(told).toEqual(['DELETED a 7', 'MODIFIED b 12', 'ADDED c 15']);
  expect(api.watch.query?.resourceVersion).toBe('20');
  expect(reflector.health()).toEqual({ live: true });
});

test('gives up a watch that is silent for longer than its window and the grace', async () => {
  const api = new FakeApi(list(9));
  const { clock, reflector } = await start(api);

  await clock.advance(29_999);
  expect(reflector.health()).toEqual({ live: true });
  await clock.advance(1);

  expect(api.watches[0]?.destroyed).toBe(true);
  expect(reflector.health()).toMatchObject({ live: false, reason: expect.stringContaining('silent for 30000 ms') });
  await clock.advance(200);
  expect(api.watches.length).toBe(2);
  expect(reflector.health()).toEqual({ live: true });
});

test('does not take a slow listener for silence', async () => {
  const api = new FakeApi(list(9));
  const taken = Promise.withResolvers<void>();
  const { clock, told, reflector } = await start(api, () => taken.promise);

  api.watch.tell({ type: 'ADDED', object: object('a', 10) }, { type: 'ADDED', object: object('b', 11) });
  await clock.advance(120_000);
  expect(told).toEqual(['ADDED a 10']);
  taken.resolve();
  await clock.settle();

  expect(told).toEqual(['ADDED a 10', 'ADDED b 11']);
  expect(api.watches.length).toBe(1);
  expect(reflector.health()).toEqual({ live: true });
});

test('pauses longer after each fault, and no longer once a watch has lasted', async () => {
  const down = new StoreError('unavailable', 'GET: connect ECONNREFUSED');
  const api = new FakeApi(down);
  const { clock, reflector } = await start(api);

  await clock.advance(200 + 400 + 800 + 1_600 + 3_200 + 6_400);
  expect(api.lists.length).toBe(7);
  await clock.advance(3 * 10_000);
  expect(api.lists.length).toBe(10);
  expect(reflector.health()).toMatchObject({ live: false, reason: expect.stringContaining('connect ECONNREFUSED') });

  api.answers[0] = list(9);
  await clock.advance(10_000);
  expect(reflector.health()).toEqual({ live: true });
  await clock.advance(1_000);
  api.watch.close();
  await clock.settle();
  api.watch.destroy(new Error('socket hang up'));
  await clock.advance(200);
  expect(api.watches.length).toBe(3);
});

test('does not ask sooner than it was told to', async () => {
  const api = new FakeApi(new StoreError('busy', 'GET: 429', { status: 429, retryAfterMs: 7_000 }));
  const { clock } = await start(api);

  await clock.advance(6_999);
  expect(api.lists.length).toBe(1);
  await clock.advance(1);
  expect(api.lists.length).toBe(2);
});

test('does not storm an API server that ends each watch at once', async () => {
  const api = new FakeApi(list(9));
  const { clock, reflector } = await start(api);

  for (let second = 0; second < 60; second++) {
    api.watch.close();
    await clock.advance(1_000);
  }

  expect(api.watches.length).toBeLessThan(15);
  expect(api.lists.length).toBe(1);
  expect(reflector.health()).toMatchObject({ live: false, reason: expect.stringContaining('ended the watch at once') });
});

test.for<[string, (api: FakeApi) => void]>([
  ['watches', () => {}],
  ['pauses', (api) => api.watch.destroy(new Error('socket hang up'))],
])('stops at once while it %s', async ([, prepare]) => {
  const api = new FakeApi(list(9));
  const { clock, stop, run } = await start(api);
  prepare(api);
  await clock.settle();

  stop.abort();
  await run;

  expect(api.watch.destroyed).toBe(true);
});
