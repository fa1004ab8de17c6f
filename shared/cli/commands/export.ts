import { KubernetesConnectionStore } from '../../adapters/kubernetes-connection-store.ts';
import { NatsHistory } from '../../adapters/nats-history.ts';
import { createPinoLogger } from '../../adapters/pino-logger.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import type { Connection, ConnectionRef } from '../../domain/connection.ts';
import type { Run } from '../command-table.ts';
import { connectKubernetes } from '../connect-kubernetes.ts';
import { EXIT_INTERRUPTED } from '../exit-codes.ts';
import { ReplayProgress } from '../replay-progress.ts';
import { connectHistory, reportingFaults } from '../replay-source.ts';
import { abortOnStopSignal } from '../shutdown.ts';
import { windowFromOptions } from '../window-from-options.ts';
import { checkOutputFile, writeRecording } from '../write-recording.ts';

/** Writes a window of the live streams, and the Connections as they are, into one file. Without Kubernetes it says so. */
export const run: Run<'export'> = async (options) => {
  const { outputFile, anonymize } = options;
  const window = windowFromOptions(options);
  await checkOutputFile(outputFile);
  const log = createPinoLogger({ level: options.logLevel });
  const stop = abortOnStopSignal(log);
  return reportingFaults(async () => {
    const link = await connectHistory(options, { log, stop });
    const kubernetes = await readConnections();
    const progress = new ReplayProgress(systemClock);
    try {
      const counts = await writeRecording(outputFile, {
        source: 'nats',
        history: new NatsHistory(link, systemClock),
        window,
        connection: kubernetes.get,
        versions: { 'nats-server': link.connection.info?.version ?? 'unknown' },
        notes: kubernetes.notes,
        anonymize,
        signal: stop,
        onBatch: (batch) => progress.took(batch),
      });
      progress.end();
      if (stop.aborted) {
        process.stderr.write(`stopped: ${outputFile} was not written\n`);
        return EXIT_INTERRUPTED;
      }
      const { observations, decisions, announcements, connections } = counts;
      process.stdout.write(
        `${outputFile}: ${observations} observations, ${decisions} decisions, ${announcements} announcements, ${connections} Connections\n`,
      );
      return 0;
    } finally {
      await link.close();
      kubernetes.close();
    }
  });
};

type Reader = {
  readonly get: (ref: ConnectionRef) => Promise<Connection | undefined>;
  readonly notes: readonly string[];
  readonly close: () => void;
};

/** Events without objects are worth a file all the same. */
async function readConnections(): Promise<Reader> {
  try {
    const client = await connectKubernetes();
    const store = new KubernetesConnectionStore(client);
    return { get: (ref) => store.get(ref), notes: [], close: () => client.close() };
  } catch (error) {
    const note = `Connections are not in it: ${(error as Error).message}`;
    process.stderr.write(`note: ${note}\n`);
    return { get: async () => undefined, notes: ['Connections are not in it: no Kubernetes'], close: () => {} };
  }
}
