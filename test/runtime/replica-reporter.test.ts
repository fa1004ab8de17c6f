import { describe, expect, it } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedBusStatistics } from '../../shared/adapters/embedded-bus-statistics.ts';
import { EmbeddedNotices } from '../../shared/adapters/embedded-notices.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { PageView } from '../../shared/domain/page-view.ts';
import { REPLICA_REPORT_TYPE } from '../../shared/domain/replica-report.ts';
import { replicaSubject } from '../../shared/domain/subjects.ts';
import type { ChangeFeed } from '../../shared/ports/connection-store.ts';
import type { Meter } from '../../shared/ports/telemetry.ts';
import { REPORT_EVERY_MS, ReplicaTally, reportReplica } from '../../shared/runtime/replica-reporter.ts';
import { watchPage } from '../../shared/runtime/watch-page.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const noMeter: Meter = { count() {}, gauge() {}, observe() {}, remove() {} };
const silentFeed: ChangeFeed = {
  run: (_onChange, signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  health: () => ({ live: true }),
};
const labels = { function: 'tunnel-status' };

/** A page and the replicas that it hears of, on one clock. */
function world() {
  const clock = new VirtualClock();
  const broker = new EmbeddedBroker({ clock });
  const notices = new EmbeddedNotices(broker);
  const view = new PageView();
  const stop = new AbortController();
  const sources = {
    ...{ live: new EmbeddedBus(broker, clock), notices, feed: silentFeed, clock },
    statistics: new EmbeddedBusStatistics(broker),
    functions: [{ name: 'tunnel-status', consumers: [] }],
  };
  void watchPage(view, sources, stop.signal);
  return {
    ...{ clock, broker, notices, stop },
    replicas: () => view.since(0).functions?.[0]?.replicas,
    run(replica: string) {
      const tally = new ReplicaTally(noMeter);
      const life = new AbortController();
      void reportReplica({ function: 'tunnel-status', replica }, tally, { notices, clock }, life.signal);
      return { tally, kill: () => life.abort() };
    },
  };
}

describe('a replica on the page', () => {
  it('shows what it handles a second and how late it is, and nothing while it has nothing to do', async () => {
    const { clock, replicas, run, stop } = world();
    const { tally } = run('pod-b');
    run('pod-a');
    for (const ageSeconds of [0.2, 1.5, 0.3, 0.1]) {
      tally.count('wg_keepalive_events_total', { ...labels, outcome: 'throttled' });
      tally.observe('wg_keepalive_event_age_seconds', labels, ageSeconds);
    }
    await clock.advance(2 * REPORT_EVERY_MS - 1);
    expect(replicas()).toEqual([
      { name: 'pod-a', perSecond: 0 },
      { name: 'pod-b', perSecond: 2, lagMs: 1_500 },
    ]);
    await clock.advance(2 * REPORT_EVERY_MS);
    expect(replicas()).toEqual([
      { name: 'pod-a', perSecond: 0 },
      { name: 'pod-b', perSecond: 0 },
    ]);
    stop.abort();
  });

  it('goes when it says nothing any more', async () => {
    const { clock, replicas, run, stop } = world();
    const { kill } = run('pod-a');
    await clock.advance(2 * REPORT_EVERY_MS);
    kill();
    expect(replicas()).toHaveLength(1);
    await clock.advance(5 * REPORT_EVERY_MS);
    expect(replicas()).toEqual([]);
    stop.abort();
  });

  it('comes back after an outage of the bus', async () => {
    const { clock, broker, replicas, run, stop } = world();
    run('pod-a');
    broker.setOutage('away');
    await clock.advance(2 * REPORT_EVERY_MS);
    broker.setOutage(undefined);
    await clock.advance(2 * REPORT_EVERY_MS);
    expect(replicas()).toEqual([{ name: 'pod-a', perSecond: 0 }]);
    stop.abort();
  });

  it('counts only under its own function, as what it should, and not without end', async () => {
    const { clock, notices, replicas, stop } = world();
    const tell = (subject: string, data: object) =>
      notices.tell(encodeCloudEvent(subject, { id: '1', source: '/test', type: REPLICA_REPORT_TYPE, data }));
    const report = { function: 'tunnel-status', replica: 'a', periodMs: 2_000, events: 1 };
    tell(replicaSubject('connection-ensure'), report);
    tell(replicaSubject('tunnel-status'), { ...report, events: -1 });
    tell(replicaSubject('tunnel-status'), { ...report, lagMs: 'late' });
    tell(replicaSubject('another'), { ...report, function: 'another' });
    await clock.advance(REPORT_EVERY_MS);
    expect(replicas()).toEqual([]);
    for (let number = 0; number < 100; number++) {
      tell(replicaSubject('tunnel-status'), { ...report, replica: `r${number}` });
    }
    await clock.advance(REPORT_EVERY_MS);
    expect(replicas()).toHaveLength(64);
    stop.abort();
  });
});
