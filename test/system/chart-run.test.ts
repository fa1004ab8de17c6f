import { mkdtempDisposable, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seedFileOf, usersOf } from '../../infra/nats/make-users.ts';
import { onFreePorts } from '../../infra/servers/free-port.ts';
import { startProcess } from '../../infra/servers/process.ts';
import { RunningServer } from '../../infra/servers/running-server.ts';
import { KubernetesConnectionStore } from '../../shared/adapters/kubernetes-connection-store.ts';
import type { BusUser } from '../../shared/domain/bus-user.ts';
import type { ConnectionValue } from '../../shared/domain/connection.ts';
import type { PagePatch } from '../../shared/domain/page-patch.ts';
import {
  accountToken,
  applyObject,
  EVERYTHING,
  type KubernetesObject,
  NAMESPACE,
  type PodSpec,
  podOf,
  renderChart,
} from '../support/chart.ts';
import { eventually } from '../support/eventually.ts';
import { KubernetesUnderTest } from '../support/kubernetes.ts';
import { type LiqoGateway, renderForGateway } from '../support/liqo-template.ts';
import { describeReal } from '../support/real-parts.ts';
import { SecuredNats } from '../support/secured-nats.ts';

const MAIN = join(import.meta.dirname, '../../shared/cli/main.ts');
const ACCOUNT_KINDS = ['ServiceAccount', 'ClusterRole', 'ClusterRoleBinding'];
/** Each gateway has an end of the loopback tunnels. */
const GATEWAYS = {
  server: { namespace: 'liqo-tenant-milan', name: 'rome', remote: 'milan', octets: [1, 2] },
  client: { namespace: 'liqo-tenant-rome', name: 'milan', remote: 'rome', octets: [2, 1] },
} as const;
type Mode = keyof typeof GATEWAYS;
const PAGE_TOKEN = 'who-has-this-may-look';
const isPage = ({ metadata }: KubernetesObject) => metadata.name === 'wg-wg-keepalive-page';

/**
 * What a cluster would run, run here: the command lines of the chart, each as a process with the token of its own
 * ServiceAccount and the NATS user of its Secret, over TLS. Only paths, addresses and ports are this machine's.
 */
await describeReal("the chart's processes", ['helm', 'go', 'openssl', 'nats-server', 'etcd', 'kube-apiserver'], () => {
  const cleanUp = new AsyncDisposableStack();
  let kubernetes: KubernetesUnderTest;
  let nats: SecuredNats;
  let objects: readonly KubernetesObject[];
  let logs: string;

  beforeAll(async () => {
    logs = cleanUp.use(await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-chart-run-'))).path;
    nats = cleanUp.use(
      await SecuredNats.start(usersOf(Object.values(GATEWAYS).map(({ namespace }) => namespace)), { setUp: false }),
    );
    kubernetes = cleanUp.use(await KubernetesUnderTest.start({ crds: false }));
    const ping = { interval: '100ms', updateStatusInterval: '1s' };
    objects = await renderChart({ ...EVERYTHING, nats: { url: nats.server.url, tls: { caSecret: 'nats-ca' } }, ping });
    for (const name of [NAMESPACE, ...Object.values(GATEWAYS).map(({ namespace }) => namespace)]) {
      await applyObject(kubernetes.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    }
    for (const object of objects.filter(({ kind }) => ACCOUNT_KINDS.includes(kind)))
      await applyObject(kubernetes.admin, object);
  });
  afterAll(() => cleanUp.disposeAsync());

  it('set everything up, and take the tunnels of two gateways to Connected, each with its own rights only', async () => {
    const [job] = objects.filter(({ kind }) => kind === 'Job');
    const setup = await startProcess(await processOf('setup', podOf(job as KubernetesObject), { role: 'setup' }));
    expect(await setup.exited, await setup.logTail()).toEqual({ code: 0, signal: null });

    const deployments = objects.filter(({ kind }) => kind === 'Deployment');
    const [pages, functions] = [deployments.filter(isPage), deployments.filter((deployment) => !isPage(deployment))];
    await Promise.all(functions.map(startFunction));
    await Promise.all((['server', 'client'] as const).map(startGateway));
    for (const mode of ['server', 'client'] as const) {
      await eventually(async () => (await statusOf(mode)) === 'Connected', `Connected at the ${mode}`, 60_000);
    }
    const page = await startPage(pages[0] as KubernetesObject);
    await eventually(async () => (await connectionsOn(page)) === 2, 'both Connections on the page');
    for (const file of (await readdir(logs)).filter((name) => name.endsWith('.log'))) {
      const text = await readFile(join(logs, file), 'utf8');
      expect(text, file).not.toMatch(/permissions violation|forbidden|: 40[13] /i);
      expect(text, file).not.toContain(PAGE_TOKEN);
    }
  });

  async function statusOf(mode: Mode): Promise<ConnectionValue | undefined> {
    const { namespace, name } = GATEWAYS[mode];
    const store = new KubernetesConnectionStore(kubernetes.admin);
    return (await store.get({ namespace, name: `gw-${name}` }))?.status?.value;
  }

  async function startFunction(deployment: KubernetesObject): Promise<void> {
    const name = deployment.metadata.name.replace('wg-wg-keepalive-', '');
    const spec = await processOf(name, podOf(deployment), { role: 'function', name });
    await serve(spec, 'readyz', (address) => [...spec.args, `--metrics-bind-address=${address}`]);
  }

  /** @returns where it answers */
  async function startPage(deployment: KubernetesObject): Promise<string> {
    const tokenFile = join(logs, 'page-token');
    await writeFile(tokenFile, PAGE_TOKEN);
    const spec = await processOf('page', podOf(deployment), { role: 'page' });
    const args = spec.args.map((arg) => arg.replace('/etc/wg-keepalive/page/token', tokenFile));
    const isBind = (arg: string) => arg.startsWith('--ui-bind-address=');
    expect(args.filter(isBind)).toEqual(['--ui-bind-address=:8088']);
    return serve(spec, 'healthz', (address) => args.map((arg) => (isBind(arg) ? `--ui-bind-address=${address}` : arg)));
  }

  /** Connected ones, as the page's first event tells it to who has the token. */
  async function connectionsOn(address: string): Promise<number> {
    const headers = { cookie: `wg-keepalive-page=${PAGE_TOKEN}` };
    const { body } = await fetch(`http://${address}/events`, { headers, signal: AbortSignal.timeout(10_000) });
    let told = '';
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      told += chunk;
      const [data] = /(?<=^data: ).*(?=\n\n)/m.exec(told) ?? [];
      if (data === undefined) continue;
      const { connections = [] } = JSON.parse(data) as PagePatch;
      return connections.filter(({ value }) => value === 'Connected').length;
    }
    return 0;
  }

  async function startGateway(mode: Mode): Promise<void> {
    const { namespace, name, remote, octets } = GATEWAYS[mode];
    const [own, peer] = octets;
    const Endpoint = { Port: 51840, Ports: [51840, 51841], ServiceType: 'NodePort', Addresses: ['192.0.2.7'] };
    const gateway: LiqoGateway = {
      ...{ Name: name, Namespace: namespace, ClusterID: remote, GatewayUID: `uid-of-${name}`, SecretName: 'keys' },
      Spec: { MTU: 1340, SecretRef: { Name: 'keys' }, Endpoint },
    };
    const kind = mode === 'server' ? 'WgGatewayServerTemplate' : 'WgGatewayClientTemplate';
    const template = objects.find((object) => object.kind === kind) as KubernetesObject;
    const { spec } = await renderForGateway(template, gateway);
    const { template: pod } = spec.deployment.spec as { readonly template: { readonly spec: PodSpec } };
    const [keepalive] = pod.spec.containers.filter((container) => container.name === 'keepalive');
    const command = await processOf(
      `gateway-${mode}`,
      { containers: keepalive ? [keepalive] : [] },
      { role: 'gateway', namespace },
    );
    // The tunnels' addresses are not there: loopback has others.
    const tunnels = ['', '1'].map(
      (index) => `--tunnel=liqo-tunnel${index}=127.77.${index || 0}.${own},127.77.${index || 0}.${peer}`,
    );
    await serve(command, 'healthz', (address) => [
      ...command.args.map((arg) => arg.replace(/^(--metrics-bind-address)=.*/, `$1=${address}`)),
      ...tunnels,
    ]);
  }

  /** The first container's command line, and access to Kubernetes as its ServiceAccount, if it has one of the chart. */
  async function processOf(name: string, pod: PodSpec | undefined, user: BusUser) {
    const args = (pod?.containers[0]?.args ?? []).map((arg) =>
      arg
        .replace('/etc/wg-keepalive/nats/seed', seedFileOf(nats.folder, user))
        .replace('/etc/wg-keepalive/nats-ca/ca.crt', nats.caFile),
    );
    const account = pod?.serviceAccountName;
    const env =
      account === undefined
        ? {}
        : {
            KUBECONFIG: await kubernetes.kubeconfig({ user: { token: await accountToken(kubernetes.admin, account) } }),
          };
    return {
      ...{ name, command: process.execPath, args: [MAIN, ...args], logFile: join(logs, `${name}.log`) },
      env: { ...process.env, ...env },
    };
  }

  async function serve(
    spec: Awaited<ReturnType<typeof processOf>>,
    path: string,
    argsFor: (address: string) => string[],
  ): Promise<string> {
    let address = '';
    const server = await onFreePorts(1, '127.0.0.1', ([port = 0]) => {
      address = `127.0.0.1:${port}`;
      const probe = async (signal: AbortSignal) =>
        (await fetch(`http://${address}/${path}`, { signal })).ok || undefined;
      return RunningServer.start(
        { ...spec, args: argsFor(address), probe, readyTimeoutMs: 60_000 },
        join(logs, spec.name),
      );
    });
    cleanUp.use(server);
    return address;
  }
});
