import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { ProxiedRequest } from '../support/api-proxy.ts';
import { eventually } from '../support/eventually.ts';
import type { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { describeReal } from '../support/real-parts.ts';
import type { TestGateway } from '../support/test-gateway.ts';
import { startTwoReplicas } from '../support/two-replicas.ts';
import type { WgKeepalive } from '../support/wg-keepalive.ts';

/** The API as it is on a bad day: {@link FunctionsOnRealParts.apiProxy} stands between it and two replicas. */
await describeReal('functions and a slow or refusing API', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  let parts: FunctionsOnRealParts;
  let replicas: WgKeepalive[];

  beforeAll(async () => {
    ({ parts, replicas } = await startTwoReplicas());
  });
  afterAll(() => parts[Symbol.asyncDispose]());
  beforeEach(() => {
    parts.apiProxy.treat = () => ({});
    parts.apiProxy.passed.length = 0;
  });

  const isStatusWrite = ({ method, url }: ProxiedRequest) => method === 'PATCH' && url.includes('/status?');
  const isTunnelWrite = (request: ProxiedRequest) =>
    isStatusWrite(request) && request.url.includes('fieldManager=liqo-tunnel');
  const isAbout = ({ ref }: TestGateway, { url }: ProxiedRequest) => url.includes(`/namespaces/${ref.namespace}/`);
  const shownBy = async ({ ref }: TestGateway) => (await parts.connection(ref))?.status?.value;
  const total = async (name: string, labels: Record<string, string>) => {
    const counts = await Promise.all(replicas.map((replica) => replica.metric(name, labels)));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  /** What the API server took of one tunnel, in its order: a patch that a conflict refused changed nothing. */
  const accepted = async ({ ref }: TestGateway) =>
    (await parts.writes(ref))
      .filter(({ code, fieldManager }) => code === 200 && fieldManager === 'liqo-tunnel')
      .flatMap(({ status }) => status?.tunnels ?? []);

  it('patches no event twice where a PATCH takes 2 s, and ends with the last of a hundred (C22)', async () => {
    const gateway = await parts.gateway();
    parts.apiProxy.treat = (request) => (isStatusWrite(request) ? { delayMs: 2_000 } : {});
    // As after an outage of minutes: each is due. The last follows an Error, so that nobody may put it off.
    for (let n = 1; n <= 100; n++) {
      const atMs = { monotonicMs: n * 11_000 };
      if (n === 99) await gateway.observe('liqo-tunnel', { kind: 'down', value: 'Error', ...atMs });
      else await gateway.pong(n, 'liqo-tunnel', atMs);
    }
    await parts.untilIdle();
    expect(await parts.tunnel(gateway.ref)).toMatchObject({ value: 'Connected', latency: { value: '100ms' } });
    const patched = (await accepted(gateway)).flatMap(({ latency }) => latency?.value ?? []);
    expect(new Set(patched).size).toBe(patched.length);
    expect(patched[0]).toBe('1ms');
  });

  it('writes changes of value in their order while each takes 2 s, and sheds refreshes instead', async () => {
    const [slow, busy] = [await parts.gateway(), await parts.gateway(3)];
    parts.apiProxy.treat = (request) => (isStatusWrite(request) ? { delayMs: 2_000 } : {});
    const superseded = () => total('wg_keepalive_superseded_transitions_total', { function: 'tunnel-status' });
    const before = await superseded();
    busy.startPinging(100);
    for (let n = 1; n <= 4; n++) {
      await slow.pong(n);
      await slow.down();
    }
    await eventually(
      async () => {
        await slow.pong(9);
        await sleep(200);
        return (await parts.tunnel(slow.ref))?.latency?.value === '9ms';
      },
      'the last change',
      60_000,
    );
    await busy.stopPinging();
    const values = (await accepted(slow)).map(({ value }) => value).filter((value) => value !== 'Connecting');
    const changes = values.filter((value, n) => value !== values[n - 1]);
    expect(changes).toEqual(changes.map((_, n) => (n % 2 === 0 ? 'Connected' : 'Error')));
    expect(changes.at(-1)).toBe('Connected');
    // All of them, unless the machine is so slow that an attempt was given up: what its change was lost with is counted.
    expect(changes.length + 2 * ((await superseded()) - before)).toBeGreaterThanOrEqual(9);
    await eventually(async () => (await shownBy(busy)) === 'Connected', 'the other Connection', 60_000);
  });

  it.each([
    [429, { 'retry-after': '1' }],
    [500, {}],
    [503, {}],
  ])(
    'leaves a Connection that is answered %i in peace between tries, and lets no other wait',
    async (status, headers) => {
      const [refused, well] = [await parts.gateway(), await parts.gateway()];
      await Promise.all([refused.pong(1), well.pong(1)]);
      for (const gateway of [refused, well]) {
        await eventually(async () => (await shownBy(gateway)) === 'Connected', 'Connected');
      }
      let attempts = 0;
      parts.apiProxy.treat = (request) => {
        if (!isStatusWrite(request) || !isAbout(refused, request)) return {};
        attempts += 1;
        return { answer: { status, headers } };
      };
      const superseded = await total('wg_keepalive_superseded_transitions_total', { function: 'tunnel-status' });
      for (let n = 0; n < 20; n++) {
        await (n % 2 === 0 ? refused.down() : refused.pong(2));
        await (n % 2 === 0 ? well.down() : well.pong(2));
        const expected = n % 2 === 0 ? 'Error' : 'Connected';
        await eventually(async () => (await parts.tunnel(well.ref))?.value === expected, `the other one ${expected}`);
      }
      expect(attempts).toBeGreaterThan(0);
      expect(attempts).toBeLessThan(20); // two replicas, each with its own pauses
      expect((await parts.tunnel(refused.ref))?.value).toBe('Connected');
      parts.apiProxy.treat = () => ({});
      await eventually(
        async () => {
          await refused.down();
          return (await shownBy(refused)) === 'Error';
        },
        'the last state',
        60_000,
      );
      const counted = await total('wg_keepalive_superseded_transitions_total', { function: 'tunnel-status' });
      expect(counted - superseded).toBeGreaterThanOrEqual(10); // each Error that a PONG took back before it was shown
    },
  );

  it('makes no storm of conflicts, and comes to the last value', async () => {
    const gateway = await parts.gateway(2);
    let conflicts = 0;
    parts.apiProxy.treat = (request) => {
      if (!isTunnelWrite(request) || !isAbout(gateway, request)) return {};
      conflicts += 1;
      return {
        answer: { status: 409, body: { kind: 'Status', code: 409, reason: 'Conflict', message: 'by the test' } },
      };
    };
    for (let n = 1; n <= 10; n++) await gateway.pong(n);
    await parts.untilIdle();
    expect(conflicts).toBeLessThanOrEqual(10 * 5);
    parts.apiProxy.treat = () => ({});
    for (const id of gateway.interfaces) await gateway.pong(11, id);
    await eventually(async () => (await shownBy(gateway)) === 'Connected', 'Connected');
  });
});
