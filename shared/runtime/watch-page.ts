import type { BusMessage } from '../domain/cloud-event.ts';
import { DECISION_TYPE, type Decision, decisionSchema } from '../domain/decision.ts';
import { OBSERVATION_TYPE, type TunnelEvent, tunnelEventSchema } from '../domain/observation.ts';
import type { PageFunction, PageHealth, PageReplica } from '../domain/page-patch.ts';
import type { PageView } from '../domain/page-view.ts';
import { REPLICA_REPORT_TYPE, type ReplicaReport, replicaReportSchema } from '../domain/replica-report.ts';
import type { ConsumerSpec } from '../domain/topology.ts';
import type { BusStatistics, ConsumerStatistics } from '../ports/bus-statistics.ts';
import type { Clock } from '../ports/clock.ts';
import type { ChangeFeed } from '../ports/connection-store.ts';
import type { EventBus } from '../ports/event-bus.ts';
import type { LiveFeed, LiveMessage } from '../ports/live-feed.ts';
import type { Notices } from '../ports/notices.ts';
import { eventDecoder } from './event-decoder.ts';
import { REPORT_EVERY_MS } from './replica-reporter.ts';

export type PageSources = {
  readonly live: LiveFeed & Pick<EventBus, 'health'>;
  readonly notices: Pick<Notices, 'hear'>;
  readonly feed: ChangeFeed;
  readonly statistics: BusStatistics;
  readonly clock: Clock;
  /** Functions that have consumers, in the order of the data path. */
  readonly functions: readonly { readonly name: string; readonly consumers: readonly ConsumerSpec[] }[];
};

const HEALTH_EVERY_MS = 250;
const STATISTICS_EVERY_MS = 2_000;
/** A replica that says nothing for this long is no more. */
const REPLICA_SILENT_AFTER_MS = 3.5 * REPORT_EVERY_MS;
/** Of each function; whoever has a function's user can name any number. */
const MAX_REPLICAS = 64;

/** Keeps a view up to date until `signal` aborts. No fault of a source ends it: the view says which one is not there. */
export async function watchPage(view: PageView, sources: PageSources, signal: AbortSignal): Promise<void> {
  const { live, feed, clock } = sources;
  live.subscribe('live.>', liveReader(view), signal);
  const watching = feed.run(async ({ kind, type, object }) => {
    if (kind !== 'connections') return;
    if (type === 'DELETED') view.removeConnection(object.metadata);
    else view.setConnection(object, clock.unixMs());
  }, signal);
  await Promise.all([watching, keepHealth(view, sources, signal), keepStatistics(view, sources, signal)]);
}

/** What no function would take is not shown either. */
function liveReader(view: PageView): (message: LiveMessage) => void {
  const decode = eventDecoder([
    { type: OBSERVATION_TYPE, schema: tunnelEventSchema },
    { type: DECISION_TYPE, schema: decisionSchema },
  ]);
  return (message) => {
    const decoded = decode(message);
    if ('error' in decoded) return;
    const { type, data } = decoded.event;
    if (type === DECISION_TYPE) view.decide(data as Decision, message.storedAtUnixMs);
    else if ('sequence' in (data as TunnelEvent)) {
      view.observe(data as Extract<TunnelEvent, { sequence: number }>, message.storedAtUnixMs);
    }
  };
}

async function keepHealth(view: PageView, { live, feed, clock }: PageSources, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const bus = live.health();
    const watch = feed.health();
    const health: readonly PageHealth[] = [
      { name: 'NATS', ok: bus.connected, ...(!bus.connected && { reason: bus.reason }) },
      { name: 'Kubernetes', ok: watch.live, ...(!watch.live && { reason: watch.reason }) },
    ];
    view.setHealth(health);
    await clock.sleep(HEALTH_EVERY_MS, signal).catch(() => {});
  }
}

type Reading = { readonly atMs: number; readonly delivered: ReadonlyMap<string, number> };

async function keepStatistics(view: PageView, sources: PageSources, signal: AbortSignal): Promise<void> {
  const { statistics, clock } = sources;
  const replicas = new Replicas(sources, signal);
  let before: Reading | undefined;
  while (!signal.aborted) {
    try {
      const { consumers, deadLetters } = await statistics.read();
      const atMs = clock.monotonicMs();
      view.setDeadLetters(deadLetters);
      view.setFunctions(functionsOf(sources, consumers, replicas, { ...(before && { before }), atMs }));
      before = { atMs, delivered: new Map(consumers.map((one) => [keyOf(one), one.delivered])) };
    } catch {
      before = undefined; // the bus's health says why
    }
    await clock.sleep(STATISTICS_EVERY_MS, signal).catch(() => {});
  }
}

function functionsOf(
  { functions }: PageSources,
  consumers: readonly ConsumerStatistics[],
  replicas: Replicas,
  { before, atMs }: { readonly before?: Reading; readonly atMs: number },
): readonly PageFunction[] {
  const byKey = new Map(consumers.map((one) => [keyOf(one), one]));
  const seconds = before === undefined ? 0 : (atMs - before.atMs) / 1_000;
  return functions.map(({ name, consumers: specs }) => {
    const own = specs.flatMap((spec) => byKey.get(keyOf(spec)) ?? []);
    // A count below the last one is that of a consumer made anew.
    const handled = own.reduce((sum, one) => {
      const former = before?.delivered.get(keyOf(one)) ?? one.delivered;
      return sum + Math.max(0, one.delivered - former);
    }, 0);
    return {
      name,
      perSecond: seconds > 0 ? tenths(handled / seconds) : 0,
      waiting: own.reduce((sum, { waiting }) => sum + waiting, 0),
      inWork: own.reduce((sum, { inWork }) => sum + inWork, 0),
      replicas: replicas.of(name),
    };
  });
}

/** The replicas that have told of themselves of late. */
class Replicas {
  readonly #clock: Clock;
  readonly #heard = new Map<string, Map<string, { readonly atMs: number; readonly shown: PageReplica }>>();

  constructor({ notices, clock, functions }: PageSources, signal: AbortSignal) {
    this.#clock = clock;
    for (const { name } of functions) this.#heard.set(name, new Map());
    const about = (data: unknown) => [(data as ReplicaReport).function];
    const decode = eventDecoder([{ type: REPLICA_REPORT_TYPE, schema: replicaReportSchema, about }]);
    const take = (message: BusMessage) => {
      const decoded = decode(message);
      if ('event' in decoded) this.#take(decoded.event.data as ReplicaReport);
    };
    notices.hear('replicas.*', take, signal);
  }

  of(functionName: string): readonly PageReplica[] {
    const heard = this.#heard.get(functionName) ?? new Map();
    const nowMs = this.#clock.monotonicMs();
    for (const [name, { atMs }] of heard) if (nowMs - atMs > REPLICA_SILENT_AFTER_MS) heard.delete(name);
    return [...heard.values()].map(({ shown }) => shown).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #take({ function: functionName, replica: name, events, periodMs, lagMs }: ReplicaReport): void {
    const heard = this.#heard.get(functionName);
    if (heard === undefined || (heard.size >= MAX_REPLICAS && !heard.has(name))) return;
    const shown = { name, perSecond: tenths((1e3 * events) / periodMs), ...(lagMs !== undefined && { lagMs }) };
    heard.set(name, { atMs: this.#clock.monotonicMs(), shown });
  }
}

function tenths(value: number): number {
  return Math.round(10 * value) / 10;
}

function keyOf({ stream, durable }: Pick<ConsumerSpec, 'stream' | 'durable'>): string {
  return `${stream}/${durable}`;
}
