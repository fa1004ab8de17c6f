import { requireServer } from './find.ts';
import { onFreePorts } from './free-port.ts';
import { RunningServer } from './running-server.ts';
import { inTemporaryFolder } from './temporary-folder.ts';

/** A running etcd of one member; a restart keeps its ports and its data. */
export type EtcdServer = RunningServer & {
  /** Client URL: `http://127.0.0.1:port` */
  readonly url: string;
};

const HOST = '127.0.0.1';

/**
 * Starts an etcd of one member on free loopback ports, its data in a temporary folder.
 * It never syncs its disk: data survive a kill of the process, not a crash of the machine.
 *
 * @throws MissingServerError if there is no etcd and none can be built; NotReadyError if it does not start
 */
export async function launchEtcd(): Promise<EtcdServer> {
  const command = await requireServer('etcd');
  return onFreePorts(2, HOST, ([port, peerPort]) =>
    inTemporaryFolder('etcd', async (folder) => {
      const url = `http://${HOST}:${port}`;
      const peerUrl = `http://${HOST}:${peerPort}`;
      const server = await RunningServer.start(
        {
          name: 'etcd',
          command,
          args: [
            ...['--name=test', `--data-dir=${folder}/data`, '--unsafe-no-fsync', '--log-level=warn'],
            ...[`--listen-client-urls=${url}`, `--advertise-client-urls=${url}`],
            ...[`--listen-peer-urls=${peerUrl}`, `--initial-advertise-peer-urls=${peerUrl}`],
            `--initial-cluster=test=${peerUrl}`,
          ],
          logFile: `${folder}/log`,
          probe: async (signal) => (await fetch(`${url}/health`, { signal })).ok || undefined,
        },
        folder,
      );
      return Object.assign(server, { url });
    }),
  );
}
