import { execFile } from 'node:child_process';
import { access, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it, onTestFailed } from 'vitest';
import { parse } from 'yaml';
import { CATALOG } from '../../functions/catalog.ts';
import { dashboard } from '../../infra/dashboards/dashboard.ts';
import { LAB_GATEWAYS } from '../../infra/lab/lab.ts';
import { NetworkNamespace } from '../../infra/lab/network-namespace.ts';
import { usersOf } from '../../infra/nats/make-users.ts';
import { requireServer } from '../../infra/servers/find.ts';
import { onFreePorts } from '../../infra/servers/free-port.ts';
import { launchEtcd } from '../../infra/servers/launch-etcd.ts';
import { type ServerProcess, startProcess, stopProcess } from '../../infra/servers/process.ts';
import { RunningServer } from '../../infra/servers/running-server.ts';
import { inTemporaryFolder } from '../../infra/servers/temporary-folder.ts';
import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { setupCrds } from '../../shared/adapters/kubernetes-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { parseOptions } from '../../shared/cli/parse-options.ts';
import { busUserName } from '../../shared/domain/bus-user.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import { type ComposeService, loadCompose, readStages } from '../support/compose-file.ts';
import { eventually } from '../support/eventually.ts';
import { crdFolder } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';

const root = join(import.meta.dirname, '../..');
const scripts = join(root, 'infra/compose');
const exec = promisify(execFile);
/** The cause is named within 5 s: nothing is waited for before. Killed, it has no exit code. */
const ENDS_WITHIN_MS = 5_000;

const TENANTS = ['liqo-tenant-milan', 'liqo-tenant-rome'];
const FUNCTIONS = CATALOG.map(({ manifest }) => manifest.name);
const GATEWAYS = ['gateway-server', 'gateway-client'];

await describeReal('docker-compose.yml', ['go'], () => {
  let services: Readonly<Record<string, ComposeService>>;
  beforeAll(async () => {
    services = await loadCompose();
  });

  it('is one that Compose takes, with every part of the system, and the scenarios in a profile of their own', () => {
    const parts = [
      'prepare',
      'users',
      'nats',
      'etcd',
      'kube-apiserver',
      'setup',
      'tenants',
      'page',
      'prometheus',
      'grafana',
    ];
    expect(Object.keys(services).sort()).toEqual([...parts, ...FUNCTIONS, ...GATEWAYS, 'scenario'].sort());
    const profiled = Object.entries(services).filter(([, { profiles = [] }]) => profiles.length > 0);
    expect(profiled.map(([name, { profiles }]) => [name, profiles])).toEqual([['scenario', ['scenario']]]);
  });

  it('gives the program flags and variables that it takes', () => {
    const { setup, page, scenario } = services;
    const environmentOf = (service: ComposeService | undefined) => ({ ...service?.environment });
    expect(parseOptions('setup', argumentsOf(setup), environmentOf(setup)).options.natsServers).toEqual([
      'nats://nats:4222',
    ]);
    expect(parseOptions('ui', argumentsOf(page), environmentOf(page)).options.uiBindAddress).toEqual({
      host: '0.0.0.0',
      port: 8_088,
    });
    expect(parseOptions('lab', [], environmentOf(scenario)).options.labTunnels).toBe(4);
    for (const name of FUNCTIONS) {
      const service = services[name];
      expect(parseOptions('function', argumentsOf(service), environmentOf(service)).operands).toEqual([name]);
    }
    for (const mode of ['server', 'client'] as const) {
      const { command, environment } = services[`gateway-${mode}`] as ComposeService;
      expect(environment).toMatchObject({ MODE: mode, TUNNELS: '4' });
      const added = [`--mode=${mode}`, `--num-interfaces=${environment?.TUNNELS}`]; // as gateway.sh does
      const { options } = parseOptions('gateway', [...added, ...(command ?? [])], { ...environment });
      const [side] = LAB_GATEWAYS.filter((one) => one.mode === mode);
      expect(options).toMatchObject({ mode, numInterfaces: 4, namespace: side?.namespace, name: side?.name });
      expect(options.remoteClusterId).toBe(side?.clusterId);
    }
  });

  it('gives each process the NATS user that it is, and nobody another', () => {
    const users = usersOf(TENANTS).map((user) => `/secrets/nats/users/${busUserName(user)}.nk`);
    const given = Object.entries(services).flatMap(([name, { environment }]) => {
      const file = environment?.WG_KEEPALIVE_NATS_CREDENTIALS;
      return file === undefined ? [] : [[name, file] as const];
    });
    for (const [, file] of given) expect(users).toContain(file);
    expect(new Set(given.map(([, file]) => file)).size).toBe(given.length);
    const expected = ['setup', 'page', ...FUNCTIONS, ...GATEWAYS];
    expect(given.map(([name]) => name).sort()).toEqual(expected.sort());
  });

  it('waits for what a service needs: every one that is waited for can be healthy, or ends', () => {
    for (const { depends_on = {} } of Object.values(services)) {
      for (const [name, { condition }] of Object.entries(depends_on)) {
        const { healthcheck, restart } = services[name] as ComposeService;
        expect(condition, name).toBe(healthcheck ? 'service_healthy' : 'service_completed_successfully');
        if (!healthcheck) expect(restart, name).toBe('on-failure'); // else it would run for ever
      }
    }
  });

  it('lets functions be scaled, opens ports on loopback only, and gives rights over a network to gateways only', () => {
    for (const [name, service] of Object.entries(services)) {
      const { cap_add = [], devices = [], ports = [], container_name } = service;
      expect(container_name, name).toBeUndefined();
      for (const port of ports) expect(port.host_ip).toBe('127.0.0.1');
      const isInGateway = GATEWAYS.includes(name) || service.network_mode === 'service:gateway-server';
      expect(cap_add, name).toEqual(isInGateway ? ['NET_ADMIN'] : []);
      expect(devices.map(({ source }) => source)).toEqual(GATEWAYS.includes(name) ? ['/dev/net/tun'] : []);
      if (FUNCTIONS.includes(name)) expect(ports, name).toEqual([]);
    }
  });

  it('builds stages that the Dockerfile has, and names every other image by a full version', async () => {
    const stages = await readStages();
    for (const { build, image } of Object.values(services)) {
      if (build !== undefined) expect(stages.map(({ name }) => name)).toContain(build.target);
      else expect(image).toMatch(/^[\w/-]+:v?\d+\.\d+\.\d+$/);
    }
  });

  it('shows Grafana the dashboard and the Prometheus that its queries are for', async () => {
    const grafana = await Promise.all(
      ['datasources', 'dashboards'].map(async (what) => {
        return parse(await readFile(join(scripts, `grafana/${what}.yml`), 'utf8'));
      }),
    );
    const [{ datasources }, { providers }] = grafana;
    const { templating } = dashboard() as { templating: { list: { type: string; query: string }[] } };
    const [variable] = templating.list.filter(({ type }) => type === 'datasource');
    expect(datasources).toMatchObject([{ type: variable?.query, isDefault: true, url: 'http://prometheus:9090' }]);
    const mounts = services.grafana?.volumes ?? [];
    const [provider] = providers;
    const target = `${provider.options.path}/wg-keepalive.json`;
    expect(mounts).toContainEqual(expect.objectContaining({ source: './infra/dashboards/wg-keepalive.json', target }));
    expect(services.grafana?.environment?.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH).toBe(target);
    for (const { source } of mounts) await access(join(root, source));
  });
});

await describeReal('Prometheus of docker-compose.yml', ['promtool'], () => {
  it('has a configuration that it takes, and scrapes every process there is', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-prometheus-'));
    const text = await readFile(join(scripts, 'prometheus.yml'), 'utf8');
    const file = join(folder.path, 'prometheus.yml');
    await writeFile(file, text.replace('/etc/prometheus/alerts', join(root, 'infra/alerts'))); // as it is mounted there
    const { stdout } = await exec(await requireServer('promtool'), ['check', 'config', file]);
    expect(stdout).toContain('is valid prometheus config file syntax');
    expect(stdout).toMatch(/SUCCESS: [1-9]\d* rules found/);
    const { scrape_configs } = parse(text);
    const [gateways, functions] = scrape_configs;
    const targets = gateways.static_configs.flatMap((one: { targets: string[] }) => one.targets);
    expect(targets).toEqual(GATEWAYS.map((name) => `${name}:8089`));
    expect(functions.dns_sd_configs[0].names.toSorted()).toEqual(FUNCTIONS.toSorted());
  });
});

await describeReal(
  'the parts of docker-compose.yml, without an engine',
  ['go', 'openssl', 'curl', 'wireguard-go', 'etcd', 'kube-apiserver'],
  () => {
    it('start the API server with what prepare.sh makes, and tenants.sh fills it, twice', async () => {
      await using secrets = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-compose-'));
      await exec('sh', [join(scripts, 'prepare.sh'), secrets.path]);
      const before = await readFile(join(secrets.path, 'token'), 'utf8');
      await exec('sh', [join(scripts, 'prepare.sh'), secrets.path]);
      expect(await readFile(join(secrets.path, 'token'), 'utf8')).toBe(before);

      await using etcd = await launchEtcd();
      const { command } = (await loadCompose())['kube-apiserver'] as ComposeService;
      await using api = await startComposed(command ?? [], secrets.path, etcd.url);
      const client = await clientOf(secrets.path, api.url);
      await setupCrds(client, { folder: crdFolder, clock: systemClock });
      for (let run = 0; run < 2; run++) {
        await exec('sh', [join(scripts, 'tenants.sh'), secrets.path], { env: { ...process.env, API_URL: api.url } });
      }
      const path = '/apis/networking.liqo.io/v1beta1/publickeies';
      const { body } = await client.call<{ items: { metadata: { namespace: string } }[] }>({ method: 'GET', path });
      expect(body.items.map(({ metadata }) => metadata.namespace)).toEqual(['liqo-tenant-milan', 'liqo-tenant-rome']);
      client.close();
    });
  },
);

await describeReal('gateway.sh of docker-compose.yml', ['openssl', 'curl', 'netns', 'tun', 'wireguard-go'], () => {
  const cleanUp = new AsyncDisposableStack();
  let folder: string;
  let server: NetworkNamespace;
  let client: NetworkNamespace;

  beforeAll(async () => {
    folder = cleanUp.use(await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-gateways-'))).path;
    await exec('sh', [join(scripts, 'prepare.sh'), folder]);
    server = cleanUp.use(await NetworkNamespace.open('server', join(folder, 'server.log')));
    client = cleanUp.use(await NetworkNamespace.open('client', join(folder, 'client.log')));
    cleanUp.defer(() => Promise.all([server, client].map(removeTunnels)).then(() => {}));
    await server.exec('ip', [...'link add eth0 type veth peer name eth0 netns'.split(' '), `${client.pid}`]);
    await server.exec('ip', ['-batch', '-'], 'address add 10.18.0.1/30 dev eth0\nlink set eth0 up\n');
    await client.exec('ip', ['-batch', '-'], 'address add 10.18.0.2/30 dev eth0\nlink set eth0 up\n');
  });
  afterAll(() => cleanUp.disposeAsync());

  /** Once it has made its tunnels: whose number is bounded by what other labs of this machine hold, so it is tried again, as Docker does. */
  async function startedGateway(mode: GatewayMode): Promise<ServerProcess> {
    let gateway = await startGateway(mode);
    const isUp = async () => {
      if (gateway.exit() !== undefined) gateway = await startGateway(mode);
      return (await metricsOf(mode === 'server' ? server : client)) !== '';
    };
    await eventually(isUp, `gateway ${mode} to run`, 100_000);
    return gateway;
  }

  function metricsOf(namespace: NetworkNamespace): Promise<string> {
    return namespace.exec('curl', ['-s', 'http://127.0.0.1:8089/metrics']).catch(() => '');
  }

  /** In its namespace, as the container would: what follows `gateway` are the flags of the compose file. */
  async function startGateway(mode: GatewayMode): Promise<ServerProcess> {
    const namespace = mode === 'server' ? server : client;
    const program = `${process.execPath} ${join(root, 'shared/cli/main.ts')}`;
    const flags = ['--namespace=liqo-tenant', `--name=${mode}`, '--remote-cluster-id=other', '--ping-interval=100ms'];
    return startProcess({
      ...{ name: `gateway ${mode}`, logFile: join(folder, `gateway-${mode}.log`) },
      ...namespace.commandLine('sh', [join(scripts, 'gateway.sh'), ...flags, '--metrics-bind-address=127.0.0.1:8089']),
      env: {
        ...process.env,
        ...{ MODE: mode, PEER: mode === 'server' ? '10.18.0.2' : '10.18.0.1', TUNNELS: '2', SECRETS: folder },
        PROGRAM: program,
      },
    });
  }

  /** A container ends with all that is in it; here wireguard-go would outlive the gateway, and ends with its interface. */
  async function removeTunnels(namespace: NetworkNamespace): Promise<void> {
    for (const name of ['liqo-tunnel', 'liqo-tunnel1']) {
      await namespace.exec('ip', ['link', 'delete', name]).catch(() => {}); // it may not have got that far
    }
  }

  async function upTunnels(namespace: NetworkNamespace): Promise<number> {
    return [...(await metricsOf(namespace)).matchAll(/^wg_keepalive_tunnel_up\{.*\} 1$/gm)].length;
  }

  it('makes the tunnels and measures them, and does so again each time it was killed (C36)', async () => {
    const gateways = [await startedGateway('server'), await startedGateway('client')];
    onTestFailed(async () => console.error(await Promise.all(gateways.map((gateway) => gateway.logTail()))));
    await eventually(async () => (await upTunnels(server)) === 2, 'both tunnels up at the server', 60_000);
    await eventually(async () => (await upTunnels(client)) === 2, 'both tunnels up at the client', 60_000);
    for (let kill = 1; kill <= 3; kill++) {
      // Only the gateway dies: its interfaces stay, as in a container whose network outlives it.
      gateways[0]?.signal('SIGKILL');
      await gateways[0]?.exited;
      expect(await server.exec('ip', ['-brief', 'link', 'show', 'liqo-tunnel1'])).toContain('liqo-tunnel1');
      gateways[0] = await startedGateway('server');
      await eventually(async () => (await upTunnels(server)) === 2, `both tunnels up after kill ${kill}`, 30_000);
    }
    await Promise.all(gateways.map((gateway) => stopProcess(gateway)));
  });

  const environment = () => ({ ...process.env, MODE: 'server', PEER: '10.18.0.2', TUNNELS: '1', SECRETS: folder });

  it('says that it lacks NET_ADMIN, and ends (C36)', async () => {
    const args = ['--bounding-set=-net_admin', '--inh-caps=-net_admin', 'sh', join(scripts, 'gateway.sh')];
    const start = exec('setpriv', args, { env: environment(), timeout: ENDS_WITHIN_MS });
    await expect(start).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/NET_ADMIN is missing/) });
  });

  it('says that it lacks /dev/net/tun where the kernel has no WireGuard, and ends (C36)', async ({ skip }) => {
    const isInKernel = await exec('unshare', ['--net', 'ip', 'link', 'add', 'probe', 'type', 'wireguard']).catch(
      () => false,
    );
    skip(isInKernel !== false, 'this kernel has WireGuard, and needs no device');
    const withoutDevice = `mount -t tmpfs none /dev/net && exec sh ${join(scripts, 'gateway.sh')}`;
    const args = ['--mount', '--net', 'sh', '-c', withoutDevice];
    const start = exec('unshare', args, { env: environment(), timeout: ENDS_WITHIN_MS });
    await expect(start).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/\/dev\/net\/tun is missing/) });
  });

  it('refuses a mode that there is not', async () => {
    const start = exec('sh', [join(scripts, 'gateway.sh')], { env: { ...process.env, MODE: 'both' } });
    await expect(start).rejects.toMatchObject({ code: 2, stderr: 'MODE "both": want server or client\n' });
  });
});

function argumentsOf(service: ComposeService | undefined): readonly string[] {
  return (service?.command ?? []).slice(1);
}

/** The API server by the compose file's own command line, with this machine's paths, addresses and a free port in it. */
function startComposed([name = '', ...args]: readonly string[], secrets: string, etcdUrl: string) {
  return onFreePorts(1, '127.0.0.1', ([port = 0]) =>
    inTemporaryFolder('composed', async (folder) => {
      const url = `https://localhost:${port}`;
      const own = args.map((arg) =>
        arg.replace('http://etcd:2379', etcdUrl).replace('/secrets', secrets).replace('port=6443', `port=${port}`),
      );
      const health = ['-fsS', '--cacert', `${secrets}/ca.crt`, `${url}/livez`]; // the healthcheck of the compose file
      const server = await RunningServer.start(
        {
          ...{ name, command: await requireServer('kube-apiserver'), args: own, logFile: join(folder, 'log') },
          readyTimeoutMs: 60_000,
          probe: () => exec('curl', health).then(() => true as const),
        },
        folder,
      );
      return Object.assign(server, { url });
    }),
  );
}

async function clientOf(secrets: string, url: string): Promise<KubernetesClient> {
  const kubeconfig = join(secrets, 'kubeconfig-here');
  const text = await readFile(join(secrets, 'kubeconfig'), 'utf8');
  await writeFile(kubeconfig, text.replace('https://kube-apiserver:6443', url));
  return KubernetesClient.connect({ clock: systemClock, kubeconfig });
}
