import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { connectionKey } from '../../shared/domain/connection.ts';
import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import { observationSubject } from '../../shared/domain/subjects.ts';
import { launchChromium, watchPageLog } from '../support/browser.ts';
import { KubernetesUnderTest } from '../support/kubernetes.ts';
import { type NatsHarness, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';

const NOTICED_WITHIN_MS = 10_000;
const FROZEN_MS = 30_000;

await describeReal(
  'wg-keepalive ui on NATS and a Kubernetes API, in Chromium',
  ['chromium', 'nats-server', 'kube-apiserver', 'etcd'],
  () => {
    const cleanUp = new AsyncDisposableStack();
    let kubernetes: KubernetesUnderTest;
    let nats: NatsHarness;
    let program: ChildProcess;
    let page: Page;
    let ref: { namespace: string; name: string };
    let store: KubernetesConnectionStore;

    beforeAll(async () => {
      kubernetes = cleanUp.use(await KubernetesUnderTest.start());
      nats = cleanUp.use(await startNatsHarness());
      const namespace = await kubernetes.namespace();
      ref = { namespace, name: 'gw-rome' };
      store = new KubernetesConnectionStore(kubernetes.admin);
      await store.ensure({
        metadata: { ...ref, labels: { 'liqo.io/remote-cluster-id': 'rome' }, ownerReferences: [] },
        spec: {
          type: 'Server',
          gatewayRef: { apiVersion: 'networking.liqo.io/v1beta1', kind: 'WgGatewayServer', name: 'rome', namespace },
        },
      });
      for (const interfaceID of ['liqo-tunnel', 'liqo-tunnel1']) {
        await store.applyTunnel(ref, { interfaceID, value: 'Connected' });
      }
      const main = join(import.meta.dirname, '../../shared/cli/main.ts');
      const flags = ['--ui-bind-address=127.0.0.1:0', `--nats-url=${nats.server.url}`];
      program = spawn(process.execPath, [main, 'ui', ...flags], {
        env: { ...process.env, KUBECONFIG: kubernetes.api.kubeconfig },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      cleanUp.defer(() => void program.kill('SIGKILL'));
      const lines = createInterface({ input: program.stdout as NodeJS.ReadableStream });
      const [url] = (await once(lines, 'line')) as [string];
      const browser: Browser = await launchChromium();
      cleanUp.defer(() => browser.close());
      page = await browser.newPage();
      const log = watchPageLog(page, url);
      cleanUp.defer(() => expect(log).toEqual({ errors: [], foreign: [] }));
      await page.goto(url);
    });
    afterAll(() => cleanUp.disposeAsync());

    const state = (wanted: string, timeout: number) =>
      page.locator(`#pulse[data-state="${wanted}"]`).waitFor({ timeout });
    const row = (interfaceId: string) => page.locator(`.tunnel[data-interface="${interfaceId}"]`);

    function observe(sequence: number): Promise<unknown> {
      const data: Observation = {
        ...{ namespace: ref.namespace, connection: ref.name, interfaceId: 'liqo-tunnel', gatewayEpoch: 1, sequence },
        ...{ monotonicMs: sequence, kind: 'pong', value: 'Connected', rttNs: 1_234_000 },
        observedAt: '2026-01-01T00:00:00Z',
      };
      const event = { id: `test.${sequence}`, source: '/test', type: OBSERVATION_TYPE, data };
      return nats.connect().then((bus) => bus.publish(encodeCloudEvent(observationSubject(ref, 'liqo-tunnel'), event)));
    }

    test('shows Connections of the API and round trips of the bus, and offers nothing to change', async () => {
      await page.getByRole('heading', { name: connectionKey(ref) }).waitFor();
      await state('live', 30_000);
      await observe(1);
      await row('liqo-tunnel').getByText('1.23 ms').waitFor();
      await row('liqo-tunnel1').waitFor();
      await expect.poll(() => page.locator('#dead-letters').textContent()).toBe('0');
      expect(await page.locator('#lab').isVisible()).toBe(false);
      expect(await page.locator('.tools button').count()).toBe(0);
    });

    test('a frozen server is marked within 10 s; after it the right tunnels are shown, without a reload (C35)', async () => {
      await page.evaluate('globalThis.isSamePage = true');
      program.kill('SIGSTOP');
      await state('stale', NOTICED_WITHIN_MS);
      await page
        .getByRole('alert')
        .getByText(/No word from the server/)
        .waitFor();
      await store.removeTunnel(ref, 'liqo-tunnel1');
      await page.waitForTimeout(FROZEN_MS);
      expect(await row('liqo-tunnel1').count()).toBe(1); // nobody told it
      await state('stale', 1_000);
      program.kill('SIGCONT');
      await row('liqo-tunnel1').waitFor({ state: 'detached', timeout: NOTICED_WITHIN_MS });
      await state('live', NOTICED_WITHIN_MS);
      expect(await row('liqo-tunnel').count()).toBe(1);
      expect(await page.getByRole('alert').isVisible()).toBe(false);
      expect(await page.evaluate('globalThis.isSamePage')).toBe(true);
    });

    test.each([
      ['NATS', () => nats.server],
      ['Kubernetes', () => kubernetes.api],
    ] as const)('a frozen %s is named within 10 s, and nothing is left of that once it is back', async (name, part) => {
      await state('live', 30_000);
      await part().kill('SIGSTOP');
      await state('partial', NOTICED_WITHIN_MS);
      await page.getByRole('alert').getByText(`${name} is away`).waitFor();
      await part().kill('SIGCONT');
      await state('live', 30_000);
      expect(await page.getByRole('alert').isVisible()).toBe(false);
    });
  },
);
