/**
 * One replica of tunnel-status in a process of its own: `fork`ed with a {@link HandlerConfig} as its argument. It says
 * `ready`, starts at the first message, and answers each later one, a {@link HandlerRequest}, with a {@link HandlerSample}.
 * Node's `--expose-gc` must be given.
 */
import { tunnelStatus } from '../../../functions/tunnel-status/handler.ts';
import { EmbeddedChangeFeed } from '../../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../../shared/adapters/embedded-kubernetes.ts';
import { KubernetesClient } from '../../../shared/adapters/kubernetes-client.ts';
import { KubernetesConnectionStore } from '../../../shared/adapters/kubernetes-connection-store.ts';
import { NatsBus } from '../../../shared/adapters/nats-bus.ts';
import { NatsStateStore } from '../../../shared/adapters/nats-state-store.ts';
import { systemClock } from '../../../shared/adapters/system-clock.ts';
import { initialEntry } from '../../../shared/domain/tunnel-status.ts';
import type { ConnectionStore } from '../../../shared/ports/connection-store.ts';
import type { Meter } from '../../../shared/ports/telemetry.ts';
import { runReplica } from '../../../shared/runtime/run-replica.ts';
import { silentLogger } from '../../support/silent-logger.ts';
import { connectionsOf, desiredConnection, type Fleet, tunnelsOf, uidOf } from './fleet.ts';

export type HandlerConfig = {
  readonly natsUrl: string;
  readonly fleet: Fleet;
  /** `acks` takes every event and acknowledges it, and does nothing else: the floor of any function. */
  readonly work: 'tunnel-status' | 'acks';
  /** Of the API server; without it Connections are kept in this process, their uids as `uidOf` says. */
  readonly kubeconfig?: string;
  readonly updateStatusIntervalMs: number;
};

/** `collected`: with the live heap, for which everything stands still some tenths of a second. */
export type HandlerRequest = 'sample' | 'collected';

export type HandlerSample = {
  /** Events handled since the start, by outcome. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** From the stream's time of an event until it was handled, in ms, since the last sample. */
  readonly agesMs: readonly number[];
  /** With all that the allocator keeps for later: how much that is depends on the machine's memory. */
  readonly residentBytes: number;
  /** What a full collection leaves, where one was asked for: what is kept. */
  readonly heapBytes?: number;
  readonly cpuMs: number;
};

const config = JSON.parse(process.argv[2] ?? '') as HandlerConfig;
const outcomes: Record<string, number> = {};
let agesMs: number[] = [];
const meter: Meter = {
  count: (name, labels, by = 1) => {
    if (name === 'wg_keepalive_events_total') counted(labels?.outcome ?? '', by);
  },
  observe: (name, _labels, value) => {
    if (name === 'wg_keepalive_event_age_seconds') agesMs.push(value * 1_000);
  },
  gauge: () => {},
  remove: () => {},
};
const bus = NatsBus.open({ servers: [config.natsUrl], name: 'bench' }, systemClock, silentLogger);
await bus.link.whenUp();
const stopping = new AbortController();
const start = config.work === 'acks' ? acknowledge : await handle();
process.send?.('ready');
let running = Promise.resolve();
process.once('message', () => {
  running = start(stopping.signal);
  process.on('message', (request: HandlerRequest) => process.send?.(sample(request)));
});
process.once('disconnect', async () => {
  stopping.abort();
  await running;
  await bus.close();
  process.exit(0); // the API client's sockets may linger
});

async function handle() {
  const { updateStatusIntervalMs } = config;
  const ports = {
    ...{ bus, meter, clock: systemClock, log: silentLogger, state: new NatsStateStore(bus.link) },
    connections: await openConnections(),
    feed: new EmbeddedChangeFeed(new EmbeddedKubernetes({ clock: systemClock, newUid: () => '' })),
  };
  const settings = { updateStatusIntervalMs, gatewaySilentAfterMs: 30_000 };
  return (signal: AbortSignal) => runReplica(tunnelStatus, ports, settings, signal);
}

async function acknowledge(signal: AbortSignal): Promise<void> {
  const { manifest } = tunnelStatus;
  const ack = async ({ storedAtUnixMs }: { readonly storedAtUnixMs: number }) => {
    counted('throttled', 1);
    agesMs.push(Math.max(0, systemClock.unixMs() - storedAtUnixMs));
    return { kind: 'ack' } as const;
  };
  await Promise.all(manifest.consumers.map((consumer) => bus.consume(consumer, ack, signal)));
}

async function openConnections(): Promise<ConnectionStore> {
  const { kubeconfig, fleet } = config;
  if (kubeconfig !== undefined) {
    return new KubernetesConnectionStore(await KubernetesClient.connect({ clock: systemClock, kubeconfig }));
  }
  let place = 0;
  const kubernetes = new EmbeddedKubernetes({ clock: systemClock, newUid: () => uidOf(place++) });
  const store = new EmbeddedConnectionStore(kubernetes);
  for (const ref of connectionsOf(fleet)) await store.ensure(desiredConnection(ref));
  for (const { ref, interfaceId } of tunnelsOf(fleet)) {
    await store.applyTunnel(ref, initialEntry(interfaceId, '2026-01-01T00:00:00Z'));
  }
  return store;
}

function counted(outcome: string, by: number): void {
  outcomes[outcome] = (outcomes[outcome] ?? 0) + by;
}

function sample(request: HandlerRequest): HandlerSample {
  const { user, system } = process.cpuUsage();
  const taken = { outcomes, agesMs, residentBytes: process.memoryUsage.rss(), cpuMs: (user + system) / 1_000 };
  agesMs = [];
  return request === 'sample' ? taken : { ...taken, heapBytes: liveHeapBytes() };
}

function liveHeapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
