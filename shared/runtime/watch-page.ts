import { DECISION_TYPE, type Decision, decisionSchema } from '../domain/decision.ts';
import { OBSERVATION_TYPE, type TunnelEvent, tunnelEventSchema } from '../domain/observation.ts';
import type { PageFunction, PageHealth } from '../domain/page-patch.ts';
import type { PageView } from '../domain/page-view.ts';
import type { ConsumerSpec } from '../domain/topology.ts';
import type { BusStatistics, ConsumerStatistics } from '../ports/bus-statistics.ts';
import type { Clock } from '../ports/clock.ts';
import type { ChangeFeed } from '../ports/connection-store.ts';
import type { EventBus } from '../ports/event-bus.ts';
import type { LiveFeed, LiveMessage } from '../ports/live-feed.ts';
import { eventDecoder } from './event-decoder.ts';

export type PageSources = {
  readonly live: LiveFeed & Pick<EventBus, 'health'>;
  readonly feed: ChangeFeed;
  readonly statistics: BusStatistics;
  readonly clock: Clock;
  /** Functions that have consumers, in the order of the data path. */
  readonly functions: readonly { readonly name: string; readonly consumers: readonly ConsumerSpec[] }[];
};

const HEALTH_EVERY_MS = 250;
const STATISTICS_EVERY_MS = 2_000;

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
  let before: Reading | undefined;
  while (!signal.aborted) {
    try {
      const { consumers, deadLetters } = await statistics.read();
      const atMs = clock.monotonicMs();
      view.setDeadLetters(deadLetters);
      view.setFunctions(functionsOf(sources, consumers, { ...(before && { before }), atMs }));
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
      perSecond: seconds > 0 ? Math.round((10 * handled) / seconds) / 10 : 0,
      waiting: own.reduce((sum, { waiting }) => sum + waiting, 0),
      inWork: own.reduce((sum, { inWork }) => sum + inWork, 0),
    };
  });
}

function keyOf({ stream, durable }: Pick<ConsumerSpec, 'stream' | 'durable'>): string {
  return `${stream}/${durable}`;
}
