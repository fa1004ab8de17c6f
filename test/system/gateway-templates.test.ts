import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseOptions } from '../../shared/cli/parse-options.ts';
import {
  applyObject,
  type Container,
  EVERYTHING,
  type KubernetesObject,
  type PodSpec,
  podOf,
  renderChart,
} from '../support/chart.ts';
import { KubernetesUnderTest } from '../support/kubernetes.ts';
import { type LiqoGateway, type RenderedGateway, renderForGateway } from '../support/liqo-template.ts';
import { describeReal } from '../support/real-parts.ts';

const TENANT = 'liqo-tenant-milan';
const LIQO_PORTS = [8082, 8083, 8084, 8085, 8086, 8087];
const PING_PORT = 12345;

const MODES = ['server', 'client'] as const;
type Mode = (typeof MODES)[number];
const KINDS: Readonly<Record<Mode, string>> = { server: 'WgGatewayServerTemplate', client: 'WgGatewayClientTemplate' };

function gatewayWith(
  ports: readonly number[] | undefined,
  more: Partial<LiqoGateway['Spec']['Endpoint']> = {},
): LiqoGateway {
  const endpoint = { Port: 51840, ServiceType: 'NodePort', Addresses: ['192.0.2.7'], ...more };
  return {
    ...{ Name: 'rome', Namespace: TENANT, ClusterID: 'milan', GatewayUID: 'f3f6a3a4', SecretName: 'gw-keys' },
    Spec: {
      ...{ MTU: 1340, SecretRef: { Name: 'gw-keys' } },
      Endpoint: { ...endpoint, ...(ports && { Ports: ports }) },
    },
  };
}

async function templateFor(mode: Mode, values: object = {}): Promise<KubernetesObject> {
  const object = (await renderChart({ ...EVERYTHING, ...values })).find(({ kind }) => kind === KINDS[mode]);
  if (object === undefined) throw new Error(`the chart renders no ${KINDS[mode]}`);
  return object;
}

function containersOf({ spec }: RenderedGateway): readonly Container[] {
  return (spec.deployment.spec as { template: { spec: PodSpec } }).template.spec.containers;
}

function containerOf(gateway: RenderedGateway, name: string): Container {
  const container = containersOf(gateway).find((found) => found.name === name);
  if (container === undefined) throw new Error(`there is no container ${name}`);
  return container;
}

/** The keepalive's command line, read by its own parser. */
function keepaliveOptions(gateway: RenderedGateway) {
  const [command, ...flags] = containerOf(gateway, 'keepalive').args;
  expect(command).toBe('gateway');
  return parseOptions('gateway', flags, {}).options;
}

await describeReal('the gateway templates', ['helm', 'go'], () => {
  describe.each(MODES)('of a %s', (mode) => {
    it.each([
      [[51840], 1],
      [[51840, 51841, 51842, 51843], 4],
      [[], 1],
      [undefined, 1],
    ])('have as many tunnels as the endpoint has ports: %j gives %i', async (ports, tunnels) => {
      const gateway = await renderForGateway(await templateFor(mode), gatewayWith(ports));
      expect(keepaliveOptions(gateway).numInterfaces).toBe(tunnels);
    });

    it('have the number of the values where Liqo knows no list of ports', async () => {
      const values = { gatewayTemplates: { ...EVERYTHING.gatewayTemplates, numInterfaces: 3 } };
      const gateway = await renderForGateway(await templateFor(mode, values), gatewayWith(undefined));
      expect(keepaliveOptions(gateway).numInterfaces).toBe(3);
    });

    it("tell the keepalive which gateway it is, and the chart's ping settings", async () => {
      const ping = { enabled: false, interval: '500ms', lossThreshold: 7, updateStatusInterval: '30s' };
      const gateway = await renderForGateway(await templateFor(mode, { ping }), gatewayWith([51840]));
      expect(gateway.metadata).toMatchObject({ name: 'rome', namespace: TENANT });
      expect(keepaliveOptions(gateway)).toMatchObject({
        ...{ mode, namespace: TENANT, name: 'rome', remoteClusterId: 'milan', gatewayUid: 'f3f6a3a4' },
        ...{ pingEnabled: false, pingIntervalMs: 500, pingLossThreshold: 7, pingUpdateStatusIntervalMs: 30_000 },
        ...{ natsCredentialsFile: '/etc/wg-keepalive/nats/seed', metricsBindAddress: { port: 8089 } },
      });
    });

    it("switch Liqo's own keepalive off, in its gateway container and nowhere else", async () => {
      const gateway = await renderForGateway(await templateFor(mode), gatewayWith([51840]));
      const off = containersOf(gateway).filter(({ args }) => args.includes('--enable-connection-controller=false'));
      expect(off.map(({ name }) => name)).toEqual(['gateway']);
    });

    it('take no port twice', async () => {
      const gateway = await renderForGateway(await templateFor(mode), gatewayWith([51840, 51841]));
      const containers = containersOf(gateway);
      const declared = containers.flatMap(({ ports = [] }) => ports.map(({ containerPort }) => containerPort));
      const bound = containers.flatMap(({ args }) =>
        args.flatMap((arg) => /^--[-a-z]*address=:(\d+)$/.exec(arg)?.[1] ?? []).map(Number),
      );
      expect(declared.toSorted()).toEqual([...LIQO_PORTS, 8089]);
      expect(bound.toSorted()).toEqual(declared.toSorted());
      expect([...declared, 51840, 51841, 6091]).not.toContain(keepaliveOptions(gateway).pingPort);
      expect(keepaliveOptions(gateway).pingPort).toBe(PING_PORT);
      const names = containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name));
      expect(new Set(names).size).toBe(names.length);
    });

    it('look at /healthz of the keepalive, and at no readiness of it', async () => {
      const gateway = await renderForGateway(await templateFor(mode), gatewayWith([51840]));
      const keepalive = containerOf(gateway, 'keepalive');
      expect(keepalive.livenessProbe).toMatchObject({ httpGet: { path: '/healthz', port: 'ka-metrics' } });
      expect(containersOf(gateway).filter((container) => 'readinessProbe' in container)).toEqual([]);
    });

    it('start without the Secrets of the keepalive: what it lacks must not keep the tunnels down', async () => {
      const { spec } = await renderForGateway(await templateFor(mode), gatewayWith([51840]));
      const { volumes = [] } = podOf({ apiVersion: 'apps/v1', kind: 'Deployment', ...spec.deployment }) as PodSpec;
      const ours = volumes.filter(({ name }) => name.startsWith('nats'));
      expect(ours.map(({ name, secret }) => ({ name, secret }))).toMatchObject([
        { name: 'nats', secret: { secretName: 'wg-keepalive-nats-gateway', optional: true } },
        { name: 'nats-ca', secret: { optional: true } },
        { name: 'nats-client', secret: { optional: true } },
      ]);
    });

    it('replace the one pod of a gateway, never run two', async () => {
      const gateway = await renderForGateway(await templateFor(mode), gatewayWith([51840]));
      expect(gateway.spec.deployment.spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
      expect(gateway.spec.deployment.metadata).toMatchObject({
        labels: { 'networking.liqo.io/component': 'gateway' },
      });
    });
  });

  it.each([
    ['server', [51840, 51841], '--listen-ports=51840,51841'],
    ['server', undefined, '--listen-port=51840'],
    ['client', [51840, 51841], '--endpoint-ports=51840,51841'],
    ['client', undefined, '--endpoint-port=51840'],
  ] as const)('tell the wireguard container of a %s the ports %j', async (mode, ports, flag) => {
    const { args } = containerOf(await renderForGateway(await templateFor(mode), gatewayWith(ports)), 'wireguard');
    expect(args.filter((arg) => arg.includes('port'))).toEqual([flag]);
    expect(args.includes('--endpoint-address=192.0.2.7')).toBe(mode === 'client');
  });

  it('keep the Service open to a pod whose keepalive is not ready', async () => {
    const { spec } = await renderForGateway(await templateFor('server'), gatewayWith([51840]));
    expect(spec.service?.spec).toMatchObject({ publishNotReadyAddresses: true });
  });

  it('leave out of the Service what the GatewayServer does not say', async () => {
    const template = await templateFor('server');
    const bare = await renderForGateway(template, gatewayWith([51840]));
    expect(bare.spec.service?.spec).toMatchObject({ type: 'NodePort', ports: [{ port: 51840, protocol: 'UDP' }] });
    expect(JSON.stringify(bare.spec.service)).not.toMatch(/nodePort|loadBalancerIP/);
    const full = await renderForGateway(
      template,
      gatewayWith([51840], { NodePort: 30742, LoadBalancerIP: '192.0.2.9' }),
    );
    expect(full.spec.service?.spec).toMatchObject({ loadBalancerIP: '192.0.2.9', ports: [{ nodePort: 30742 }] });
  });

  it('say what is wrong with a template that names what Liqo does not know', async () => {
    const template = await templateFor('server');
    const wrong = JSON.parse(JSON.stringify(template).replaceAll('.GatewayUID', '.GatewayUid')) as KubernetesObject;
    await expect(renderForGateway(wrong, gatewayWith([51840]))).rejects.toThrow("can't evaluate field GatewayUid");
  });
});

await describeReal('the gateway templates, rendered and applied', ['helm', 'go', 'etcd', 'kube-apiserver'], () => {
  let kubernetes: KubernetesUnderTest;

  beforeAll(async () => {
    // Liqo's own containers are privileged.
    kubernetes = await KubernetesUnderTest.start({ crds: false, args: ['--allow-privileged=true'] });
    const metadata = { name: TENANT };
    await applyObject(kubernetes.admin, { apiVersion: 'v1', kind: 'Namespace', metadata });
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    const restricted = { name: 'restricted', labels };
    await applyObject(kubernetes.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: restricted });
  });
  afterAll(() => kubernetes[Symbol.asyncDispose]());

  it.each(MODES)('make a Deployment (and Service) of a %s that the API server takes', async (mode) => {
    const { spec } = await renderForGateway(await templateFor(mode), gatewayWith([51840, 51841, 51842, 51843]));
    const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', ...spec.deployment };
    await applyObject(kubernetes.admin, deployment, { dryRun: true });
    expect(spec.service !== undefined).toBe(mode === 'server');
    if (spec.service) {
      await applyObject(kubernetes.admin, { apiVersion: 'v1', kind: 'Service', ...spec.service }, { dryRun: true });
    }
  });

  it.each(MODES)('have a keepalive container in a %s that "restricted" Pod Security admits', async (mode) => {
    const { spec } = await renderForGateway(await templateFor(mode), gatewayWith([51840]));
    const pod = podOf({ apiVersion: 'apps/v1', kind: 'Deployment', ...spec.deployment });
    const keepalive = pod?.containers.filter(({ name }) => name === 'keepalive') ?? [];
    expect(keepalive).toHaveLength(1);
    const mounted = new Set(keepalive.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name)));
    const volumes = pod?.volumes?.filter(({ name }) => mounted.has(name));
    const alone = { containers: keepalive, volumes };
    const metadata = { name: 'keepalive', namespace: 'restricted' };
    await applyObject(kubernetes.admin, { apiVersion: 'v1', kind: 'Pod', metadata, spec: alone }, { dryRun: true });
  });
});
