import { hostname } from 'node:os';
import { CATALOG } from '../../../functions/catalog.ts';
import type { Check } from '../../adapters/health-server.ts';
import { KubernetesChangeFeed } from '../../adapters/kubernetes-change-feed.ts';
import type { KubernetesClient } from '../../adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../adapters/kubernetes-connection-store.ts';
import { KubernetesSchemaWatch } from '../../adapters/kubernetes-schema-watch.ts';
import { NatsBus } from '../../adapters/nats-bus.ts';
import { NatsNotices } from '../../adapters/nats-notices.ts';
import { NatsStateStore } from '../../adapters/nats-state-store.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import { functionUser } from '../../domain/bus-user.ts';
import type { FunctionPorts } from '../../ports/function-ports.ts';
import { busThatTells, Refusals, storeThatTells } from '../../runtime/refusals.ts';
import { runReplica } from '../../runtime/run-replica.ts';
import type { OptionsOf, Run } from '../command-table.ts';
import { connectKubernetes } from '../connect-kubernetes.ts';
import { UsageError } from '../errors.ts';
import { natsFromOptions } from '../nats-from-options.ts';
import { busCheck, logReadiness, untilReady } from '../readiness.ts';
import { runProcess, type Surroundings } from '../run-process.ts';

type Definition = (typeof CATALOG)[number];

/** One replica of each function that is named; any number of such processes may run. */
export const run: Run<'function'> = async (options, names) => {
  const definitions = definitionsOf(names);
  const nats = natsFromOptions(options, functionUser(names));
  const kubernetes = await connectKubernetes();
  return runProcess(options, async (around) => {
    const bus = NatsBus.open(nats, systemClock, around.log);
    try {
      return await runReplicas(definitions, options, { ...around, bus, kubernetes });
    } finally {
      await bus.close();
      kubernetes.close();
    }
  });
};

/** @throws UsageError for a name that the catalog does not have */
function definitionsOf(names: readonly string[]): readonly Definition[] {
  const known = CATALOG.map(({ manifest }) => manifest.name);
  const want = `want all, or some of ${known.join(', ')}`;
  if (names.length === 0) throw new UsageError(`a function is missing: ${want}`);
  if (names.length === 1 && names[0] === 'all') return CATALOG;
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new UsageError(`${JSON.stringify(unknown)}: there is no such function; ${want}`);
  return CATALOG.filter(({ manifest }) => names.includes(manifest.name));
}

type Parts = Surroundings & { readonly bus: NatsBus; readonly kubernetes: KubernetesClient };

/** Takes the first event only once everything is there: an event that cannot be handled is better left in its stream. */
async function runReplicas(
  definitions: readonly Definition[],
  options: OptionsOf<'function'>,
  parts: Parts,
): Promise<number> {
  const { log, meter, stop, bus, kubernetes, readiness } = parts;
  const schema = new KubernetesSchemaWatch(kubernetes, {
    clock: systemClock,
    onChange: () => {
      const isRight = schema.isSchemaRight();
      if (isRight !== undefined) meter.gauge('wg_keepalive_crd_ready', {}, Number(isRight));
    },
  });
  const showBus = () => meter.gauge('wg_keepalive_bus_connected', {}, Number(bus.health().connected));
  bus.onHealthChange(showBus);
  showBus();
  const { watchNamespaces } = options;
  const feed = new KubernetesChangeFeed(kubernetes, {
    clock: systemClock,
    random: Math.random,
    ...(watchNamespaces && { namespaces: watchNamespaces }),
  });
  const refusals = { nats: new Refusals(systemClock), kubernetes: new Refusals(systemClock) };
  const ports: FunctionPorts = {
    ...{ feed, meter, log, clock: systemClock },
    bus: busThatTells(bus, refusals.nats),
    state: new NatsStateStore(bus.link),
    connections: storeThatTells(new KubernetesConnectionStore(kubernetes), refusals.kubernetes),
  };
  const needs: readonly Check[] = [
    allOf('nats', [busCheck(bus).check, () => refusals.nats.health()]),
    allOf('kubernetes', [() => schema.health(), () => refusals.kubernetes.health()]),
  ];
  readiness.push(...needs);
  if (definitions.some(({ manifest }) => manifest.name === 'connection-watch')) readiness.push(feedCheck(feed));
  const watching = [schema.run(stop), logReadiness(readiness, { clock: systemClock, log, signal: stop })];
  if (await untilReady(needs, systemClock, stop)) {
    log.info({ functions: definitions.map(({ manifest }) => manifest.name) }, 'functions start');
    const settings = {
      updateStatusIntervalMs: options.pingUpdateStatusIntervalMs,
      gatewaySilentAfterMs: options.gatewaySilentAfterMs,
      ...(watchNamespaces && { namespaces: watchNamespaces }),
    };
    const reporting = { replica: replicaName(), notices: new NatsNotices(bus.link) };
    await Promise.all(definitions.map((definition) => runReplica(definition, ports, settings, stop, reporting)));
  }
  await Promise.all(watching);
  return 0;
}

/** The pod's or container's name; where several processes share a host, theirs. */
function replicaName(): string {
  return process.pid === 1 ? hostname() : `${hostname()}/${process.pid}`;
}

/** The first that is not well speaks for all. */
function allOf(name: string, checks: readonly Check['check'][]): Check {
  return { name, check: () => checks.map((check) => check()).find(({ ok }) => !ok) ?? { ok: true } };
}

function feedCheck(feed: KubernetesChangeFeed): Check {
  return {
    name: 'watch',
    check: () => {
      const health = feed.health();
      return health.live ? { ok: true } : { ok: false, reason: health.reason };
    },
  };
}
