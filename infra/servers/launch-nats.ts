import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { requireServer } from './find.ts';
import { onFreePorts } from './free-port.ts';
import { RunningServer } from './running-server.ts';
import { inTemporaryFolder } from './temporary-folder.ts';

/** How a nats-server is started; nothing is needed. */
export type NatsOptions = {
  /**
   * Like the default it puts `http` on 127.0.0.1, where readiness is asked for. To be reloaded (SIGHUP) it has to say
   * `server_name: $NATS_SERVER_NAME`: a reload forgets the name of the command line, and then refuses.
   *
   * @defaultValue `infra/nats/server.conf`
   */
  readonly configFile?: string;
  /** Address that it listens on. @defaultValue `127.0.0.1` */
  readonly host?: string;
  /** More arguments of nats-server, such as `-DV`. */
  readonly args?: readonly string[];
};

/** A running nats-server with JetStream; a restart keeps its port and its streams. */
export type NatsServer = RunningServer & {
  /** `nats://host:port` */
  readonly url: string;
  /** `http://127.0.0.1:port` of its monitoring pages (`/varz`, `/jsz`, `/connz`). */
  readonly monitorUrl: string;
  readonly serverName: string;
};

/** A cluster of nats-servers; dispose ends all of them. */
export type NatsCluster = AsyncDisposable & {
  readonly servers: readonly NatsServer[];
  /** Client URLs of all servers. */
  readonly urls: readonly string[];
  /** Server that leads the JetStream cluster at this moment; undefined during an election. */
  leader(): Promise<NatsServer | undefined>;
};

const DEFAULT_CONFIG_FILE = fileURLToPath(new URL('../nats/server.conf', import.meta.url));
const CLUSTER_READY_TIMEOUT_MS = 60_000;

/**
 * Starts a nats-server with JetStream on free ports, its store in a temporary folder.
 *
 * @throws MissingServerError if there is no nats-server and none can be built; NotReadyError if it does not start
 */
export async function launchNats(options: NatsOptions = {}): Promise<NatsServer> {
  const host = options.host ?? '127.0.0.1';
  return onFreePorts(2, host, ([port = 0, monitorPort = 0]) =>
    startNats({ ...options, host, port, monitorPort, serverName: `nats-${port}` }),
  );
}

/**
 * Starts one server as {@link launchNats} does, or a cluster of several.
 *
 * @throws as {@link launchNats}
 */
export async function launchNatsServers(count: number, options: NatsOptions = {}): Promise<NatsCluster> {
  if (count > 1) return launchNatsCluster(count, options);
  const server = await launchNats(options);
  return {
    servers: [server],
    urls: [server.url],
    leader: async () => (server.isRunning ? server : undefined),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/**
 * Starts a JetStream cluster, for streams with replicas.
 *
 * @param size - number of servers. @defaultValue 3
 * @throws as {@link launchNats}
 */
export async function launchNatsCluster(size = 3, options: NatsOptions = {}): Promise<NatsCluster> {
  const host = options.host ?? '127.0.0.1';
  return onFreePorts(3 * size, host, (ports) => startCluster(size, { ...options, host }, ports));
}

async function startCluster(
  size: number,
  options: NatsOptions & { readonly host: string },
  ports: readonly number[],
): Promise<NatsCluster> {
  const { host } = options;
  const routePorts = ports.slice(2 * size);
  const routes = routePorts.map((port) => `nats://${host}:${port}`).join(',');
  const started = await Promise.allSettled(
    routePorts.map((routePort, index) =>
      startNats({
        ...options,
        port: ports[index] ?? 0,
        monitorPort: ports[size + index] ?? 0,
        serverName: `nats-${index}`,
        clustered: true,
        args: [
          ...['--cluster_name', 'wg-keepalive', '--cluster', `nats://${host}:${routePort}`, '--routes', routes],
          ...(options.args ?? []),
        ],
      }),
    ),
  );
  const servers = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const dispose = async () => {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  };
  const failed = started.find((result) => result.status === 'rejected');
  if (failed) {
    await dispose();
    throw failed.reason;
  }
  return {
    servers,
    urls: servers.map((server) => server.url),
    leader: async () => {
      const names = await Promise.all(
        servers.filter((server) => server.isRunning).map((server) => clusterLeader(server.monitorUrl)),
      );
      const name = names.find((found) => found !== undefined);
      return servers.find((server) => server.serverName === name);
    },
    [Symbol.asyncDispose]: dispose,
  };
}

type Placement = NatsOptions & {
  readonly host: string;
  readonly port: number;
  readonly monitorPort: number;
  readonly serverName: string;
  readonly clustered?: boolean;
};

async function startNats(placement: Placement): Promise<NatsServer> {
  const { host, port, monitorPort, serverName } = placement;
  const command = await requireServer('nats-server');
  const monitorUrl = `http://127.0.0.1:${monitorPort}`;
  return inTemporaryFolder('nats', async (folder) => {
    const storeFolder = `${folder}/store`;
    await mkdir(storeFolder);
    const server = await RunningServer.start(
      {
        name: `nats-server ${serverName}`,
        command,
        args: [
          ...['-c', placement.configFile ?? DEFAULT_CONFIG_FILE, '-sd', storeFolder, '-n', serverName],
          ...['-a', host, '-p', `${port}`, '-m', `${monitorPort}`],
          ...(placement.args ?? []),
        ],
        env: { ...process.env, NATS_SERVER_NAME: serverName },
        logFile: `${folder}/log`,
        probe: async (signal) => {
          const health = await fetch(`${monitorUrl}/healthz`, { signal });
          if (!health.ok) return undefined; // JetStream included: 503 until it has recovered its streams
          return !placement.clustered || (await clusterLeader(monitorUrl)) !== undefined || undefined;
        },
        ...(placement.clustered && { readyTimeoutMs: CLUSTER_READY_TIMEOUT_MS }),
      },
      folder,
    );
    return Object.assign(server, { url: `nats://${host}:${port}`, monitorUrl, serverName });
  });
}

async function clusterLeader(monitorUrl: string): Promise<string | undefined> {
  const response = await fetch(`${monitorUrl}/jsz`);
  const jsz = (await response.json()) as { readonly meta_cluster?: { readonly leader?: string } };
  return jsz.meta_cluster?.leader || undefined;
}
