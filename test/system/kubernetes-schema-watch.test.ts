import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { launchKubeApiserver } from '../../infra/servers/launch-kube-apiserver.ts';
import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { KubernetesSchemaWatch } from '../../shared/adapters/kubernetes-schema-watch.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { describeReal } from '../support/real-parts.ts';

const COLLECTION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const NAME = 'connections.networking.liqo.io';
const crdFile = join(import.meta.dirname, '../../infra/crds/networking.liqo.io_connections.yaml');

await describeReal('the schema watch', ['kube-apiserver', 'etcd'], () => {
  test('follows the CRD with no rights of its own, whatever becomes of it', async () => {
    await using api = await launchKubeApiserver({ users: [{ name: 'nobody' }] });
    const stop = new AbortController();
    const admin = await KubernetesClient.connect({ clock: systemClock, kubeconfig: api.kubeconfig });
    const kubeconfig = await api.writeKubeconfig('nobody');
    const client = await KubernetesClient.connect({ clock: systemClock, kubeconfig, callTimeoutMs: 2_000 });
    const crd = await readFile(crdFile, 'utf8');
    const put = (body: string) =>
      admin.call({
        method: 'PATCH',
        path: `${COLLECTION}/${NAME}`,
        query: { fieldManager: 'test', force: true },
        contentType: 'application/apply-patch+yaml',
        body,
      });
    const becomes = (expected: object) =>
      vi.waitFor(() => expect(watch.health()).toEqual(expected), { timeout: 60_000, interval: 50 });
    const reasonHas = (text: string) => becomes({ ok: false, reason: expect.stringContaining(text) });

    const told: boolean[] = [];
    const watch = new KubernetesSchemaWatch(client, { clock: systemClock, onChange: ({ ok }) => told.push(ok) });
    expect(watch.health()).toEqual({ ok: false, reason: 'not asked yet' });
    const running = watch.run(stop.signal);

    await reasonHas('run "wg-keepalive setup"');
    await put(crd.replace(/^\s*x-kubernetes-list-(type|map-keys):.*\n/gm, ''));
    await reasonHas('status.tunnels of Connection is not a map by interfaceID: run "wg-keepalive setup"');
    await put(crd);
    await becomes({ ok: true });
    expect(told.at(-1)).toBe(true);

    stop.abort();
    await running;
    admin.close();
    client.close();
  });

  test('says where it cannot get an answer', async () => {
    await using api = await launchKubeApiserver();
    const kubeconfig = await api.writeKubeconfig('admin', { token: 'revoked' });
    const stop = new AbortController();
    const client = await KubernetesClient.connect({ clock: systemClock, kubeconfig, callTimeoutMs: 2_000 });
    const watch = new KubernetesSchemaWatch(client, { clock: systemClock, onChange: () => {} });
    const running = watch.run(stop.signal);
    const becomes = (reason: RegExp) =>
      vi.waitFor(() => expect(watch.health()).toEqual({ ok: false, reason: expect.stringMatching(reason) }), 60_000);
    await becomes(new RegExp(`^${api.url}: GET /openapi/v3/\\S+: 401 Unauthorized`));
    await api.stop();
    await becomes(new RegExp(`^${api.url}: GET /openapi/v3/\\S+: connect ECONNREFUSED`));
    stop.abort();
    await running;
    client.close();
  });
});
