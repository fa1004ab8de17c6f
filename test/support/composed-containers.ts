import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { NetworkNamespace } from '../../infra/lab/network-namespace.ts';
import { requireServer } from '../../infra/servers/find.ts';
import { type ServerProcess, startProcess, stopProcess } from '../../infra/servers/process.ts';
import { type ComposeService, type ImageStage, imageOf, loadCompose, readStages } from './compose-file.ts';
import { eventually } from './eventually.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);
/** Bounds, not expectations. */
const READY_WITHIN_MS = 150_000;
const PREFIX = '10.19.0';
/** Leads nowhere, but there is one, as in a container. */
const GATEWAY = `${PREFIX}.254`;

/**
 * A root folder of its own, as far as a compose file can tell: what the images hold and what is mounted is where it says,
 * names of services are known, and process 1 is the container's. Usage: ROOT HOSTS NAME COMMAND…, mounts in MOUNTS.
 */
const CONTAINER = `
set -e
root=$1 hosts=$2 name=$3; shift 3
mount -t tmpfs -o mode=0755 container "$root"
for entry in /*; do
  if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
  elif [ "$entry" = /etc ]; then mkdir "$root/etc"; cp -a /etc/. "$root/etc/" 2>/dev/null || true
  elif [ "$entry" != /proc ] && [ -d "$entry" ]; then mkdir "$root$entry"; mount --rbind "$entry" "$root$entry"; fi
done
mkdir -p "$root/proc" "$root/etc/nats"
mount -t proc proc "$root/proc"
echo "$name" > "$root/proc/sys/kernel/hostname"
cp "$hosts" "$root/etc/hosts"
printf '%s\\n' "$MOUNTS" | while IFS='|' read -r source target mode; do
  [ -n "$source" ] || continue
  if [ -d "$source" ]; then mkdir -p "$root$target"; else mkdir -p "$(dirname "$root$target")"; : > "$root$target"; fi
  mount --bind "$source" "$root$target"
  mount -o "remount,bind,$mode" "$root$target"
done
unset MOUNTS
exec chroot "$root" "$@"
`;

type Container = { readonly service: ComposeService; readonly address: string; readonly network: NetworkNamespace };

/**
 * Runs services of docker-compose.yml without an engine: each in a network, a process and a mount namespace of its own, by the
 * entry point of the Dockerfile, with the command, environment, mounts, capabilities and user that the two files give it.
 * What an image installs is that of this machine; no image is built.
 */
export class ComposedContainers implements AsyncDisposable {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly #stages: readonly ImageStage[];
  readonly #folder: string;
  readonly #hub: NetworkNamespace;
  readonly #path: string;
  readonly #containers = new Map<string, Container>();
  readonly #running = new Map<string, ServerProcess>();
  #probes = 0;

  private constructor(parts: {
    services: Readonly<Record<string, ComposeService>>;
    stages: readonly ImageStage[];
    folder: string;
    hub: NetworkNamespace;
    path: string;
  }) {
    this.services = parts.services;
    this.#stages = parts.stages;
    this.#folder = parts.folder;
    this.#hub = parts.hub;
    this.#path = parts.path;
  }

  /** @param folder - gets volumes, logs and what the images hold; stays */
  static async open(folder: string): Promise<ComposedContainers> {
    await chmod(folder, 0o755); // containers run as other users
    const app = join(folder, 'app'); // as the stage `program` fills it
    await run('npx', ['rolldown', '-c', 'infra/bundle/rolldown.config.ts', '-d', join(app, 'dist')], { cwd: root });
    for (const path of ['package.json', 'infra/crds']) await cp(join(root, path), join(app, path), { recursive: true });
    const servers = await Promise.all((['nats-server', 'etcd', 'kube-apiserver'] as const).map(requireServer));
    const [services, stages] = [await loadCompose(), await readStages()];
    const hub = await NetworkNamespace.open('hub', join(folder, 'hub.log'));
    await hub.exec(
      'ip',
      ['-batch', '-'],
      `link add bridge type bridge\naddress add ${GATEWAY}/24 dev bridge\nlink set bridge up\n`,
    );
    const path = [dirname(process.execPath), ...servers.map((file) => dirname(file)), process.env.PATH].join(':');
    return new ComposedContainers({ services, stages, folder, hub, path });
  }

  /** Lays the network of these containers: `service` or, of one that is scaled, `service.2`. */
  async connect(names: readonly string[]): Promise<void> {
    const lines = ['127.0.0.1 localhost'];
    for (const [index, name] of names.entries()) {
      const service = this.services[name.split('.')[0] as string] as ComposeService;
      const network = await NetworkNamespace.open(name, this.logOf(`${name}.network`));
      const address = `${PREFIX}.${index + 1}`;
      const port = `port${index}`;
      await this.#hub.exec(
        'ip',
        ['-batch', '-'],
        `link add ${port} type veth peer name eth0 netns ${network.pid}\nlink set ${port} master bridge up\n`,
      );
      await network.exec(
        'ip',
        ['-batch', '-'],
        `address add ${address}/24 dev eth0\nlink set eth0 up\nroute add default via ${GATEWAY}\n`,
      );
      this.#containers.set(name, { service, address, network });
      lines.push(`${address} ${name.split('.')[0]}`);
    }
    await writeFile(join(this.#folder, 'hosts'), `${lines.join('\n')}\n`);
  }

  /** Starts a container once what it depends on is as the file wants it. Of a service that ends: when it has ended. */
  async start(name: string): Promise<void> {
    const { service } = this.#of(name);
    for (const needed of Object.keys(service.depends_on ?? {})) await this.#isReady(needed);
    await this.restart(name);
  }

  /** Starts it, whatever there was before. */
  async restart(name: string): Promise<ServerProcess> {
    const { service } = this.#of(name);
    const { entrypoint } = imageOf(this.#stages, service.build?.target ?? '');
    const started = await this.#process(name, [...entrypoint, ...(service.command ?? [])], this.logOf(name));
    this.#running.set(name, started);
    return started;
  }

  /** SIGKILL of all that is in it. */
  async kill(name: string): Promise<void> {
    const running = this.#running.get(name);
    running?.signal('SIGKILL');
    await running?.exited;
  }

  /**
   * Runs a service to its end, in the network of another one where the file says so.
   *
   * @param command - instead of the file's
   */
  async runToEnd(
    name: string,
    command?: readonly string[],
  ): Promise<{ readonly code: number | null; readonly output: string }> {
    const [, host = name] = /^service:(.+)$/.exec(this.services[name]?.network_mode ?? '') ?? [];
    const { network, address } = this.#of(host);
    const service = { ...(this.services[name] as ComposeService), ...(command && { command }) };
    this.#containers.set(name, { service, network, address });
    const running = await this.restart(name);
    const { code } = await running.exited;
    this.#running.delete(name);
    return { code, output: await running.logTail() };
  }

  /** Resolves with what a command of this machine prints in the network of a container. */
  exec(name: string, command: string, args: readonly string[]): Promise<string> {
    return this.#of(name).network.exec(command, args);
  }

  /** Until its healthcheck, run in the container's place, is content. */
  async isHealthy(name: string): Promise<void> {
    const [kind, ...command] = this.#of(name).service.healthcheck?.test ?? [];
    if (kind !== 'CMD') throw new Error(`${name}: the healthcheck is ${kind}, want CMD`);
    const isContent = async () => {
      const running = this.#running.get(name);
      const exit = running?.exit();
      if (exit && this.#of(name).service.restart === 'unless-stopped') {
        await this.restart(name); // as an engine does it
        return false;
      }
      if (exit) throw new Error(`${name} ended with ${exit.signal ?? exit.code}:\n${await running?.logTail()}`);
      const probe = await this.#process(name, command, this.logOf(`${name}.health`));
      return (await probe.exited).code === 0;
    };
    await eventually(isContent, `${name} to be healthy`, READY_WITHIN_MS);
  }

  logOf(name: string): string {
    return join(this.#folder, `${name}.log`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#running.values()].map((one) => stopProcess(one, 1_000)));
    const networks = new Set([...this.#containers.values()].map(({ network }) => network));
    await Promise.all([...networks, this.#hub].map((network) => network[Symbol.asyncDispose]()));
  }

  #of(name: string): Container {
    const container = this.#containers.get(name);
    if (container === undefined) throw new Error(`no container "${name}": connect it first`);
    return container;
  }

  async #isReady(name: string): Promise<void> {
    const running = this.#running.get(name);
    if (running === undefined) throw new Error(`${name} is needed, and was not started`);
    if (this.services[name]?.healthcheck !== undefined) return this.isHealthy(name);
    const { code } = await running.exited;
    if (code !== 0) throw new Error(`${name} ended with ${code}:\n${await running.logTail()}`);
  }

  async #process(name: string, command: readonly string[], logFile: string): Promise<ServerProcess> {
    const { service, network } = this.#of(name);
    const { user = '0:0', folder } = imageOf(this.#stages, service.build?.target ?? '');
    const [uid, gid] = user.split(':');
    const added = (service.cap_add ?? []).map((name_) => `,+${name_.toLowerCase()}`).join('');
    const isBound = service.cap_drop?.includes('ALL');
    const rights = [
      // Another user is no longer killed with its parent, unless it asks for it itself.
      ...['setpriv', '--pdeathsig', 'KILL', '--reuid', `${uid}`, '--regid', `${gid}`, '--clear-groups'],
      ...(isBound ? ['--no-new-privs', '--inh-caps=-all', `--bounding-set=-all${added}`] : []),
      ...['--', 'env', '-C', folder],
    ];
    const place = join(this.#folder, 'roots', `${this.#probes++}`);
    await mkdir(place, { recursive: true });
    const alone = ['--mount', '--pid', '--uts', '--fork', '--kill-child', '--propagation', 'private'];
    const container = ['sh', '-c', CONTAINER, 'sh', place, join(this.#folder, 'hosts'), name];
    return startProcess({
      ...{ name, logFile, ...network.commandLine('unshare', [...alone, '--', ...container, ...rights, ...command]) },
      env: {
        PATH: this.#path,
        HOME: uid === '0' ? '/root' : '/',
        ...service.environment,
        MOUNTS: await this.#mounts(service),
      },
    });
  }

  /** `source|target|mode` a line: volumes, and what the images hold. */
  async #mounts({ volumes = [] }: ComposeService): Promise<string> {
    const lines = [
      `${root}|/src|ro`,
      `${join(this.#folder, 'app')}|/app|ro`,
      `${join(root, 'infra/compose')}|/compose|ro`,
      `${join(root, 'infra/nats/server.conf')}|/etc/nats/server.conf|ro`,
    ];
    for (const { type, source, target, read_only } of volumes) {
      const from = type === 'bind' ? join(root, source) : join(this.#folder, 'volumes', source);
      if (type === 'volume') await mkdir(from, { recursive: true });
      lines.push(`${from}|${target}|${read_only ? 'ro' : 'rw'}`);
    }
    return lines.join('\n');
  }
}
