import { CATALOG } from '../../../functions/catalog.ts';
import type { KubernetesClient } from '../../adapters/kubernetes-client.ts';
import { CrdSetupError, readClusterUid, setupCrds } from '../../adapters/kubernetes-setup.ts';
import { NatsLink } from '../../adapters/nats-link.ts';
import type { NatsOptions } from '../../adapters/nats-options.ts';
import { BusSetupError, raiseEpoch, setupBus } from '../../adapters/nats-setup.ts';
import { createPinoLogger } from '../../adapters/pino-logger.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import { StoreError } from '../../ports/connection-store.ts';
import { BusError } from '../../ports/event-bus.ts';
import type { Logger } from '../../ports/telemetry.ts';
import type { OptionsOf, Run } from '../command-table.ts';
import { connectKubernetes } from '../connect-kubernetes.ts';
import { untilConnected } from '../connect-nats.ts';
import { StartError } from '../errors.ts';
import { natsFromOptions } from '../nats-from-options.ts';
import { packagePath } from '../package-root.ts';
import { abortOnStopSignal } from '../shutdown.ts';

/** A Job tries again by itself, a person wants to know soon. */
const CONNECT_TIMEOUT_MS = 15_000;
/** Names the cluster that an account belongs to: two of them in one account would mix up their Connections. */
const CLUSTER_METADATA = 'wg-keepalive.cluster-uid';

const RESTART =
  'epochs are raised: restart nats-server now, so that gateways come back and announce themselves again\n';

/** Idempotent: what is as it should be stays untouched. The last line says what was done. */
export const run: Run<'setup'> = async (options) => {
  const log = createPinoLogger({ level: options.logLevel });
  const nats = natsFromOptions(options, { role: 'setup' });
  const stop = abortOnStopSignal(log);
  const kubernetes = await connectKubernetes();
  try {
    const crds = await setupCrds(kubernetes, { folder: packagePath('infra/crds'), clock: systemClock, signal: stop });
    const clusterUid = await readClusterUid(kubernetes, stop);
    const changes = await withNats(nats, log, stop, (link) => setUpBus(link, clusterUid, options, log));
    const done = [...crds.map(({ name, change }) => ({ name: `CRD ${name}`, change })), ...changes];
    const changed = done.filter(({ change }) => change !== 'none' && change !== 'unchanged');
    const list = changed.map(({ name, change }) => `${name} ${change}`).join(', ');
    if (options.restored) process.stderr.write(RESTART);
    process.stdout.write(`${done.length} checked, ${changed.length} changed${list && `: ${list}`}\n`);
    return 0;
  } catch (error) {
    throw explained(error, kubernetes, nats);
  } finally {
    kubernetes.close();
  }
};

async function setUpBus(link: NatsLink, clusterUid: string, options: OptionsOf<'setup'>, log: Logger) {
  const consumers = CATALOG.flatMap(({ manifest }) => ('consumers' in manifest ? manifest.consumers : []));
  const changes = await setupBus(link.connection, {
    ...{ consumers, log },
    replicas: options.natsReplicas,
    maxBytes: { OBSERVATIONS: options.observationsMaxBytes, DECISIONS: options.decisionsMaxBytes },
    maxAgeMs: { OBSERVATIONS: options.historyMaxAgeMs, DECISIONS: options.historyMaxAgeMs },
    metadata: { [CLUSTER_METADATA]: clusterUid },
    clock: systemClock,
  });
  // Sequences of GATEWAYS begin with the Unix time in ms and grow more slowly than that: now is above them all.
  if (options.restored) await raiseEpoch(link.connection, systemClock.unixMs());
  return changes.map(({ kind, name, change }) => ({ name: `${kind} ${name}`, change }));
}

async function withNats<Result>(
  options: NatsOptions,
  log: Logger,
  stop: AbortSignal,
  work: (link: NatsLink) => Promise<Result>,
): Promise<Result> {
  const link = NatsLink.open(options, systemClock, log);
  try {
    await untilConnected(link, options.servers, { stop, timeoutMs: CONNECT_TIMEOUT_MS });
    return await work(link);
  } finally {
    await link.close();
  }
}

/** What the user can mend, as one line that says where. */
function explained(error: unknown, kubernetes: KubernetesClient, nats: NatsOptions): unknown {
  if (error instanceof StoreError)
    return new StartError(`Kubernetes ${kubernetes.server}: ${error.message}`, { cause: error });
  if (error instanceof BusError)
    return new StartError(`NATS ${nats.servers.join()}: ${error.message}`, { cause: error });
  if (error instanceof CrdSetupError || error instanceof BusSetupError)
    return new StartError(error.message, { cause: error });
  return error;
}
