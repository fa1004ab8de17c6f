import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { eventually } from '../support/eventually.ts';
import { CONSUMERS, type FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { SETUP_FOR_TESTS } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { TestGateway } from '../support/test-gateway.ts';
import { startTwoReplicas } from '../support/two-replicas.ts';
import type { WgKeepalive } from '../support/wg-keepalive.ts';

const CRD = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/connections.networking.liqo.io';
/** C21 and C23 ask for it. */
const RESUMES_WITHIN_MS = 15_000;
const KILLS = 3;
const OUTAGE_MS = 8_000;

await describeReal('functions when their surroundings break', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  let parts: FunctionsOnRealParts;
  let replicas: WgKeepalive[];

  beforeAll(async () => {
    ({ parts, replicas } = await startTwoReplicas());
  });
  afterAll(() => parts[Symbol.asyncDispose]());

  const shownBy = async ({ ref }: TestGateway) => (await parts.connection(ref))?.status?.value;
  /** Says `value` once and waits until the Connection shows it: the whole path works. */
  const passes = async (gateway: TestGateway, value: 'Connected' | 'Error', withinMs?: number) => {
    for (const id of gateway.interfaces) await (value === 'Connected' ? gateway.pong(1, id) : gateway.down(id));
    await eventually(async () => (await shownBy(gateway)) === value, `the Connection to be ${value}`, withinMs);
  };
  const untilNotReady = (reason: RegExp) =>
    Promise.all(
      replicas.map((replica) =>
        eventually(async () => {
          const readiness = await replica.readiness();
          return readiness !== undefined && !readiness.isReady && reason.test(readiness.text);
        }, `not ready: ${reason}`),
      ),
    );
  const untilReady = () => Promise.all(replicas.map((replica) => replica.untilReady()));

  describe('NATS', () => {
    it(`goes on within 15 s of each of ${KILLS} kills of the server, with the consumers that there were (C21)`, async () => {
      const gateway = await parts.gateway(2);
      await passes(gateway, 'Connected');
      const consumers = await parts.consumerNames();
      for (let kill = 0; kill < KILLS; kill++) {
        await parts.nats.kill();
        await parts.nats.restart();
        const value = kill % 2 === 0 ? 'Error' : 'Connected';
        await passes(gateway, value, RESUMES_WITHIN_MS);
      }
      expect(await parts.consumerNames()).toEqual(consumers);
      expect(replicas.map(({ isRunning }) => isRunning)).toEqual([true, true]);
    });

    it('is not ready while the server is away, alive all the same, and goes on when it is back (C23)', async () => {
      const gateway = await parts.gateway();
      await passes(gateway, 'Connected');
      await parts.nats.stop();
      await untilNotReady(/^nats: .*(lost the connection|cannot connect)/m);
      await sleep(OUTAGE_MS);
      for (const replica of replicas) expect(await replica.isAlive()).toBe(true);
      await parts.nats.restart();
      await passes(gateway, 'Error', RESUMES_WITHIN_MS);
      await untilReady();
    });

    it('says that setup must run where a stream is gone, and goes on with the new one, newer epochs included', async () => {
      const gateway = await parts.gateway();
      await passes(gateway, 'Connected');
      const manager = await parts.manager();
      for (const stream of ['OBSERVATIONS', 'GATEWAYS', 'CHANGES', 'TIMERS', 'DECISIONS', 'DEAD_LETTERS']) {
        await manager.streams.delete(stream);
      }
      await untilNotReady(/there is no stream \w+: run `wg-keepalive setup`/);
      await setupBus(parts.bus.link.connection, SETUP_FOR_TESTS(CONSUMERS));
      await untilReady();
      await passes(gateway, 'Error');
      const restarted = await new TestGateway(parts.bus, gateway.ref.namespace, 1).announce();
      expect(restarted.epoch).toBeGreaterThan(gateway.epoch);
      await passes(restarted, 'Connected');
    });

    it('repairs a state bucket that was lost, when it starts', async () => {
      const gateway = await parts.gateway();
      await passes(gateway, 'Connected');
      const manager = await parts.manager();
      await manager.streams.purge('KV_tunnel-state');
      const [leaving, staying] = replicas as [WgKeepalive, WgKeepalive];
      await leaving.stop();
      const flags = ['--ping-update-status-interval=1s'];
      replicas = [staying, await (await parts.startFunctions(flags)).untilReady()];
      await eventually(async () => {
        await gateway.down();
        return (await shownBy(gateway)) === 'Error';
      }, 'Error');
    });
  });

  describe('Kubernetes', () => {
    it('is not ready where the CRD is replaced by an older one, makes no storm, and goes on after setup', async () => {
      const { admin } = parts.kubernetes;
      const gateway = await parts.gateway(2);
      await passes(gateway, 'Connected');
      type Crd = { metadata: object; spec: { versions: { schema: { openAPIV3Schema: Schema } }[] } };
      type Schema = { properties: { status: { properties: Record<string, unknown> } } };
      const { body: ours } = await admin.call<Crd>({ method: 'GET', path: CRD });
      const older = structuredClone(ours);
      for (const { schema } of older.spec.versions) {
        const { properties } = schema.openAPIV3Schema.properties.status;
        schema.openAPIV3Schema.properties.status.properties = { value: properties.value, latency: properties.latency };
      }
      await admin.call({ method: 'PUT', path: CRD, body: older });
      gateway.startPinging(50, () => (Math.random() < 0.5 ? 'pong' : 'down'));
      await untilNotReady(/^kubernetes: .*run "wg-keepalive setup"/m);
      const before = (await parts.writes(gateway.ref)).length;
      await sleep(5_000);
      const attempts = (await parts.writes(gateway.ref)).length - before;
      expect(attempts).toBeLessThan(40); // 200 events, each of which would be a write
      await gateway.stopPinging();

      const { body: live } = await admin.call<Crd>({ method: 'GET', path: CRD });
      await admin.call({ method: 'PUT', path: CRD, body: { ...ours, metadata: live.metadata } });
      await untilReady();
      await eventually(
        async () => {
          for (const id of gateway.interfaces) await gateway.pong(1, id);
          return (await shownBy(gateway)) === 'Connected';
        },
        'Connected',
        60_000,
      );
    });

    it('is not ready where its rights are taken away, says which, and goes on when they are back', async () => {
      const gateway = await parts.gateway();
      await passes(gateway, 'Connected');
      const message =
        'connections.networking.liqo.io is forbidden: User "us" cannot patch resource "connections/status"';
      const body = { kind: 'Status', code: 403, reason: 'Forbidden', message };
      parts.apiProxy.treat = ({ method }) => (method === 'PATCH' ? { answer: { status: 403, body } } : {});
      gateway.startPinging(100, () => 'down');
      await eventually(async () => {
        const all = await Promise.all(replicas.map((replica) => replica.readiness()));
        return all.some((readiness) => readiness?.text.includes('cannot patch resource "connections/status"') ?? false);
      }, 'not ready, with the reason');
      parts.apiProxy.treat = () => ({});
      await eventually(async () => (await shownBy(gateway)) === 'Error', 'Error', 60_000);
      await gateway.stopPinging();
    });

    it('is not ready while its watch is blind, and tells what it missed afterwards', async () => {
      const gateway = await parts.gateway();
      await passes(gateway, 'Connected');
      const isWatch = (url: string) => /\/(connections|publickeies)\?/.test(url);
      parts.apiProxy.treat = ({ url }) => (isWatch(url) ? { answer: { status: 500 } } : {});
      parts.apiProxy.cutWatches();
      await untilNotReady(/^watch: no watch of \w+ in all namespaces: .*500/m);
      for (const id of gateway.interfaces) await gateway.down(id);
      await eventually(async () => (await parts.tunnel(gateway.ref))?.value === 'Error', 'the tunnel in Error');
      expect(await shownBy(gateway)).toBe('Connected'); // nobody knows
      parts.apiProxy.treat = () => ({});
      await eventually(async () => (await shownBy(gateway)) === 'Error', 'Error', 30_000);
      await untilReady();
    });
  });
});
