import { execFile } from 'node:child_process';
import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { NetworkNamespace } from '../../infra/lab/network-namespace.ts';
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
import { eventually } from '../support/eventually.ts';
import { crdFolder } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';

const root = join(import.meta.dirname, '../..');
const scripts = join(root, 'infra/compose');
const exec = promisify(execFile);

type Service = {
  readonly command: readonly string[] | null;
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly build?: { readonly target: string };
  readonly healthcheck?: object;
  readonly cap_add?: readonly string[];
  readonly ports?: readonly { readonly host_ip?: string }[];
};

/** The compose file as Docker Compose reads it: anchors, defaults and interpolation done, everything checked. */
async function loadCompose(): Promise<Readonly<Record<string, Service>>> {
  const check = ['run', '-C', join(root, 'test/support/compose-check'), '.', join(root, 'docker-compose.yml')];
  const { stdout } = await exec('go', check, { env: { ...process.env, GOWORK: 'off' }, maxBuffer: 2 ** 24 });
  return (JSON.parse(stdout) as { services: Record<string, Service> }).services;
}

await describeReal('docker-compose.yml', ['go'], () => {
  let services: Readonly<Record<string, Service>>;
  beforeAll(async () => {
    services = await loadCompose();
  });

  it('is one that Compose takes, with every part of the system', () => {
    const names = [
      'etcd',
      'functions',
      'gateway-client',
      'gateway-server',
      'kube-apiserver',
      'nats',
      'prepare',
      'setup',
    ];
    expect(Object.keys(services).sort()).toEqual([...names, 'tenants'].sort());
  });

  it('gives the program flags that it takes', () => {
    const flagsOf = (name: string) => services[name]?.command ?? [];
    expect(parseOptions('setup', flagsOf('setup').slice(1), {}).options.natsServers).toEqual(['nats://nats:4222']);
    expect(parseOptions('function', flagsOf('functions').slice(1), {}).operands).toEqual(['all']);
    for (const mode of ['server', 'client'] as const) {
      const { environment } = services[`gateway-${mode}`] as Service;
      expect(environment).toMatchObject({ MODE: mode, TUNNELS: '4' });
      const added = [`--mode=${mode}`, `--num-interfaces=${environment?.TUNNELS}`]; // as gateway.sh does
      const { options } = parseOptions('gateway', [...added, ...flagsOf(`gateway-${mode}`)], {});
      expect(options).toMatchObject({ mode, numInterfaces: 4 });
    }
  });

  it('waits for what a service needs: every one that is waited for can be healthy, or ends', () => {
    for (const { depends_on = {} } of Object.values(services)) {
      for (const [name, { condition }] of Object.entries(depends_on)) {
        expect(condition, name).toBe(
          services[name]?.healthcheck ? 'service_healthy' : 'service_completed_successfully',
        );
      }
    }
  });

  it('builds stages that the Dockerfile has, opens ports on loopback only, and gives rights to gateways only', async () => {
    const dockerfile = await readFile(join(root, 'Dockerfile'), 'utf8');
    for (const [name, service] of Object.entries(services)) {
      expect(dockerfile).toContain(` AS ${service.build?.target}\n`);
      for (const port of service.ports ?? []) expect(port.host_ip).toBe('127.0.0.1');
      expect(service.cap_add ?? [], name).toEqual(name.startsWith('gateway-') ? ['NET_ADMIN'] : []);
    }
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
      const { command } = (await loadCompose())['kube-apiserver'] as Service;
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

  /** In its namespace, as the container would: what follows `gateway` are the flags of the compose file. */
  async function startGateway(mode: 'server' | 'client'): Promise<ServerProcess> {
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
    const page = await namespace.exec('curl', ['-s', 'http://127.0.0.1:8089/metrics']).catch(() => '');
    return [...page.matchAll(/^wg_keepalive_tunnel_up\{.*\} 1$/gm)].length;
  }

  it('makes the tunnels and measures them, and does so again after it was killed', async () => {
    const gateways = [await startGateway('server'), await startGateway('client')];
    await eventually(async () => (await upTunnels(server)) === 2, 'both tunnels up at the server', 60_000);
    await eventually(async () => (await upTunnels(client)) === 2, 'both tunnels up at the client', 60_000);
    gateways[0]?.signal('SIGKILL');
    await gateways[0]?.exited;
    gateways[0] = await startGateway('server');
    await eventually(async () => (await upTunnels(server)) === 2, 'both tunnels up again', 60_000);
    await Promise.all(gateways.map((gateway) => stopProcess(gateway)));
  });

  it('says what it lacks where it may not make a tunnel', async () => {
    const start = exec(
      'setpriv',
      ['--bounding-set=-net_admin', '--inh-caps=-net_admin', 'sh', join(scripts, 'gateway.sh')],
      {
        env: { ...process.env, MODE: 'server', PEER: '10.18.0.2', TUNNELS: '1', SECRETS: folder },
      },
    );
    await expect(start).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/liqo-tunnel: .*NET_ADMIN/) });
  });

  it('refuses a mode that there is not', async () => {
    const start = exec('sh', [join(scripts, 'gateway.sh')], { env: { ...process.env, MODE: 'both' } });
    await expect(start).rejects.toMatchObject({ code: 2, stderr: 'MODE "both": want server or client\n' });
  });
});

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
