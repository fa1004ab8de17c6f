import { realpath } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { usersOf } from '../../infra/nats/make-users.ts';
import { parseOptions } from '../../shared/cli/parse-options.ts';
import { busUserName } from '../../shared/domain/bus-user.ts';
import { HISTORY } from '../../shared/domain/topology.ts';
import {
  applyObject,
  chartFolder,
  EVERYTHING,
  helm,
  type KubernetesObject,
  NAMESPACE,
  podOf,
  renderChart,
  renderRelease,
} from '../support/chart.ts';
import { eventually } from '../support/eventually.ts';
import { foreignCrds } from '../support/foreign-crds.ts';
import { crdFolder, KubernetesUnderTest } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';

const FUNCTIONS = CATALOG.map(({ manifest }) => manifest.name).sort();

const VALUES = {
  defaults: {},
  'everything switched on': EVERYTHING,
  'two namespaces and no NATS credentials': {
    watchNamespaces: ['tenant-a', 'tenant-b'],
    nats: { url: 'tls://nats-0:4222,tls://nats-1:4222', credentials: { enabled: false } },
  },
  'one replica, an image by digest, placed': {
    functions: { 'tunnel-status': { replicas: 1, resources: { requests: { cpu: '1' } } } },
    image: { repository: 'example/wg-keepalive', digest: `sha256:${'0'.repeat(64)}` },
    imagePullSecrets: [{ name: 'pull' }],
    nodeSelector: { 'kubernetes.io/os': 'linux' },
    tolerations: [{ key: 'infra', operator: 'Exists' }],
    priorityClassName: 'system-cluster-critical',
    setup: { enabled: false },
    podDisruptionBudgets: { enabled: false },
    networkPolicies: { enabled: false },
  },
};

await describeReal('the chart', ['helm'], () => {
  it('passes helm lint, strictly', async () => {
    expect(await helm(['lint', '--strict', chartFolder])).toContain('0 chart(s) failed');
  });

  it('brings the CRDs of infra/crds, the files themselves', async () => {
    expect(await realpath(`${chartFolder}/crds`)).toBe(await realpath(crdFolder));
    const crds = (await renderChart({}, '--include-crds')).filter(({ kind }) => kind === 'CustomResourceDefinition');
    expect(crds.map(({ metadata }) => metadata.name)).toEqual([
      'connections.networking.liqo.io',
      'publickeies.networking.liqo.io',
    ]);
  });

  it('deploys every function of the catalog, with an account, and the NATS user, of its own', async () => {
    const objects = await renderChart();
    const deployments = objects.filter(({ kind }) => kind === 'Deployment');
    const found = deployments.map((deployment) => {
      const pod = podOf(deployment);
      const [secret] = pod?.volumes?.flatMap((volume) => volume.secret?.secretName ?? []) ?? [];
      return { name: deployment.metadata.name, account: pod?.serviceAccountName, secret };
    });
    expect(found).toEqual(
      FUNCTIONS.map((name) => ({
        name: `wg-wg-keepalive-${name}`,
        account: `wg-wg-keepalive-${name}`,
        secret: `wg-keepalive-nats-function.${name}`,
      })),
    );
    const users = usersOf([]).map(busUserName);
    for (const { secret } of found) expect(users).toContain(secret?.replace('wg-keepalive-nats-', ''));
  });

  it('gives each process flags that it takes, with the values of the chart', async () => {
    const objects = await renderChart({
      ...EVERYTHING,
      watchNamespaces: ['tenant-a'],
      gatewaySilentAfter: '1m',
      ping: { interval: '500ms', updateStatusInterval: '3s' },
      nats: { ...EVERYTHING.nats, replicas: 3, history: { maxAge: '72h', observationsMaxBytes: '240Gi' } },
    });
    const args = objects.flatMap((object) => podOf(object)?.containers.map((container) => container.args) ?? []);
    expect(args.map(([command]) => command).sort()).toEqual([...FUNCTIONS.map(() => 'function'), 'setup', 'ui']);
    for (const [command, ...flags] of args) {
      if (command === 'setup') {
        expect(parseOptions('setup', flags, {}).options).toMatchObject({
          natsReplicas: 3,
          historyMaxAgeMs: 72 * 3_600_000,
          observationsMaxBytes: 240 * 2 ** 30,
          decisionsMaxBytes: HISTORY.decisionsMaxBytes,
        });
      } else if (command === 'ui') {
        expect(parseOptions('ui', flags, {}).options).toMatchObject({
          uiBindAddress: { port: 8_088 },
          uiTokenFile: '/etc/wg-keepalive/page/token',
          watchNamespaces: ['tenant-a'],
          natsCredentialsFile: '/etc/wg-keepalive/nats/seed',
        });
      } else {
        expect(parseOptions('function', flags, {}).options).toMatchObject({
          pingUpdateStatusIntervalMs: 3_000,
          gatewaySilentAfterMs: 60_000,
          watchNamespaces: ['tenant-a'],
          natsCredentialsFile: '/etc/wg-keepalive/nats/seed',
          natsCaFile: '/etc/wg-keepalive/nats-ca/ca.crt',
          natsKeyFile: '/etc/wg-keepalive/nats-client/tls.key',
        });
      }
    }
  });

  it('deploys the page where that is wanted, as its NATS user, with its token, behind a Service', async () => {
    const isPage = ({ metadata }: KubernetesObject) => metadata.name === 'wg-wg-keepalive-page';
    expect((await renderChart()).filter(isPage)).toEqual([]);
    const objects = (await renderChart({ page: { enabled: true, tokenSecret: 'look' } })).filter(isPage);
    const deployment = objects.find(({ kind }) => kind === 'Deployment') as KubernetesObject;
    const service = objects.find(({ kind }) => kind === 'Service');
    const pod = podOf(deployment);
    expect(pod?.serviceAccountName).toBe('wg-wg-keepalive-page');
    expect(pod?.volumes?.map(({ secret }) => secret?.secretName)).toEqual(['look', 'wg-keepalive-nats-page']);
    expect(pod?.containers).toMatchObject([
      {
        ports: [{ name: 'http', containerPort: 8088 }],
        readinessProbe: { httpGet: { path: '/healthz', port: 'http' } },
        livenessProbe: { httpGet: { path: '/healthz', port: 'http' } },
      },
    ]);
    const { selector } = deployment.spec as { selector: { matchLabels: object } };
    expect(service?.spec).toEqual({
      selector: selector.matchLabels,
      ports: [{ name: 'http', port: 80, targetPort: 'http' }],
    });
  });

  it('takes names that are numbers for names', async () => {
    const secrets = { caSecret: '1', clientSecret: '2' };
    const values = {
      ...{ ...EVERYTHING, page: { enabled: false }, nats: { tls: secrets }, priorityClassName: '3' },
      watchNamespaces: ['4', '5e6'],
    };
    const objects = [
      ...(await renderRelease('7', values, '--namespace', '8')),
      ...(await renderChart({ page: { enabled: true, tokenSecret: '9' } })),
    ];
    const named = new Map<string, Set<unknown>>();
    const walk = (value: unknown, key = ''): void => {
      if (typeof value === 'object' && value !== null) {
        for (const [name, inner] of Object.entries(value)) walk(inner, name);
      } else if (/^(name|namespace|secretName|priorityClassName|app\.kubernetes\.io\/.*)$/.test(key)) {
        named.set(key, (named.get(key) ?? new Set()).add(value));
      }
    };
    walk(objects.filter(({ kind }) => !kind.startsWith('WgGateway')));
    expect(named.get('namespace')).toEqual(new Set(['4', '5e6', '8', NAMESPACE]));
    expect([...(named.get('secretName') ?? [])]).toEqual(expect.arrayContaining(['1', '2', '9']));
    for (const [key, values] of named)
      for (const value of values) expect(typeof value, `${key} ${value}`).toBe('string');
  });

  it('takes the values of a release that knew no page', async () => {
    const named = async (values: object) => (await renderChart(values)).map(({ metadata }) => metadata.name);
    expect(await named({ page: null })).toEqual(await named({}));
  });

  it.each([
    ['7', '7-wg-keepalive-page'],
    ['a'.repeat(53), `${'a'.repeat(53)}-wg-keepalive-page`],
    ['a.b', 'a.b-wg-keepalive-page'],
  ])('refuses the page of release %s, whose Service could not have its name', async (release, name) => {
    await expect(renderRelease(release, { page: { enabled: true } })).rejects.toThrow(
      new RegExp(`release ${release} would give the page's Service the name ${name}; .* choose another release name`),
    );
    expect(await renderRelease(release, {})).not.toEqual([]);
  });

  it('gives functions and setup the environment that is wanted, and none without', async () => {
    const containers = async (values: object) =>
      (await renderChart(values)).flatMap((object) => podOf(object)?.containers ?? []);
    const env = Object.entries(EVERYTHING.env).map(([name, value]) => ({ name, value }));
    for (const container of await containers({ env: EVERYTHING.env })) expect(container.env).toEqual(env);
    for (const container of await containers({})) expect(container).not.toHaveProperty('env');
  });

  it('runs each process as user 65532 on a read-only root, without a capability', async () => {
    const pods = (await renderChart(EVERYTHING)).map(podOf).filter((pod) => pod !== undefined);
    expect(pods.length).toBeGreaterThan(FUNCTIONS.length);
    for (const { containers } of pods) {
      for (const container of containers) {
        expect(container.securityContext).toMatchObject({
          ...{ runAsUser: 65532, runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false },
          capabilities: { drop: ['ALL'] },
        });
      }
    }
  });

  it('scales each function on exactly the consumers that it has, and leaves their replicas to KEDA', async () => {
    const objects = await renderChart(EVERYTHING);
    const triggers = objects
      .filter(({ kind }) => kind === 'ScaledObject')
      .flatMap(({ metadata, spec }) =>
        (spec as { triggers: { metadata: { stream: string; consumer: string } }[] }).triggers.map(
          (trigger) => `${metadata.name} ${trigger.metadata.stream} ${trigger.metadata.consumer}`,
        ),
      );
    const consumers = CATALOG.flatMap(({ manifest }) =>
      'consumers' in manifest
        ? manifest.consumers.map(({ stream, durable }) => `wg-wg-keepalive-${manifest.name} ${stream} ${durable}`)
        : [],
    );
    expect(triggers.sort()).toEqual(consumers.sort());
    const fixed = objects.filter(({ kind, spec }) => kind === 'Deployment' && 'replicas' in (spec as object));
    expect(fixed.map(({ metadata }) => metadata.name)).toEqual([
      'wg-wg-keepalive-connection-watch',
      'wg-wg-keepalive-page',
    ]);
  });

  it.each([
    [{ functions: { 'tunel-status': { replicas: 1 } } }, /tunel-status/],
    [{ ping: { interval: 'soon' } }, /interval/],
    [{ nats: { url: 'nats://user:secret@nats:4222' } }, /url/],
    [{ replicas: 3 }, /replicas/],
    [{ env: { HTTPS_PROXY: 3128 } }, /HTTPS_PROXY/],
    [{ page: { enabled: true, tokenSecret: '' } }, /tokenSecret/],
    [{ keda: { enabled: true, minReplicas: 9 } }, /keda\.minReplicas: 9 is more than keda\.maxReplicas, which is 8/],
    [
      { ping: { interval: '2.5s' } },
      /gatewaySilentAfter: 30s is less than 3 x .* \(3 x 2\.5s x 5\): .* make it longer/,
    ],
    [{ gatewaySilentAfter: '30m1ms' }, /gatewaySilentAfter: 30m1ms is more than 30m, .* make it shorter/],
    [{ gatewayTemplates: { enabled: true } }, /gatewayTemplates\.liqoImages\.\w+: the image of Liqo's/],
  ])('refuses %j and says what is wrong', async (values, message) => {
    await expect(renderChart(values)).rejects.toThrow(message);
  });

  it('looks at /readyz and /healthz of the functions on the port that they serve', async () => {
    const deployments = (await renderChart()).filter(({ kind }) => kind === 'Deployment');
    for (const deployment of deployments) {
      expect(podOf(deployment)?.containers).toMatchObject([
        {
          ports: [{ name: 'metrics', containerPort: 8089 }],
          readinessProbe: { httpGet: { path: '/readyz', port: 'metrics' } },
          livenessProbe: { httpGet: { path: '/healthz', port: 'metrics' } },
        },
      ]);
    }
  });
});

await describeReal('the chart, applied', ['helm', 'etcd', 'kube-apiserver'], () => {
  let kubernetes: KubernetesUnderTest;
  const admin = () => kubernetes.admin;

  beforeAll(async () => {
    kubernetes = await KubernetesUnderTest.start();
    for (const name of [NAMESPACE, 'tenant-a', 'tenant-b']) {
      // Pods of this namespace must not need more than the profile "restricted" of Pod Security gives.
      const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
      await applyObject(admin(), { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
    }
    for (const crd of foreignCrds) await applyObject(admin(), crd);
    for (const crd of foreignCrds) {
      const { group, names, versions } = crd.spec as {
        group: string;
        names: { plural: string };
        versions: { name: string }[];
      };
      const path = `/apis/${group}/${versions[0]?.name}/${names.plural}`;
      const isServed = () =>
        admin()
          .call({ method: 'GET', path })
          .then(
            () => true,
            () => false,
          );
      await eventually(isServed, `${names.plural} served`);
    }
  });
  afterAll(() => kubernetes[Symbol.asyncDispose]());

  describe.each(Object.entries(VALUES))('with %s', (_name, values) => {
    it('is taken by the API server, object by object', async () => {
      const objects = await renderChart(values);
      expect(objects.length).toBeGreaterThan(15);
      for (const object of objects) {
        await applyObject(admin(), object, { dryRun: true }).catch((cause) => {
          throw new Error(`${object.kind} ${object.metadata.name}: ${cause.message}`, { cause });
        });
      }
    });

    it('makes pods that "restricted" Pod Security admits', async () => {
      for (const object of await renderChart(values)) {
        const spec = podOf(object);
        if (spec === undefined) continue;
        // No controller runs here that would make the account a pod needs.
        const { serviceAccountName: _, ...bare } = spec;
        const pod: KubernetesObject = {
          ...{ apiVersion: 'v1', kind: 'Pod', spec: bare },
          metadata: { name: object.metadata.name, namespace: NAMESPACE },
        };
        await applyObject(admin(), pod, { dryRun: true });
      }
    });
  });

  it('is held to Pod Security: a pod that may be root is not admitted', async () => {
    const spec = { containers: [{ name: 'root', image: 'x' }] };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'root', namespace: NAMESPACE }, spec };
    await expect(applyObject(admin(), pod, { dryRun: true })).rejects.toThrow(/violates PodSecurity "restricted/);
  });
});
