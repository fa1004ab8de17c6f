import { encodeCloudEvent } from '../domain/cloud-event.ts';
import { REPLICA_REPORT_TYPE, type ReplicaReport } from '../domain/replica-report.ts';
import { replicaSubject } from '../domain/subjects.ts';
import type { Clock } from '../ports/clock.ts';
import type { Notices } from '../ports/notices.ts';
import type { Meter } from '../ports/telemetry.ts';

export const REPORT_EVERY_MS = 2_000;

type Who = Pick<ReplicaReport, 'function' | 'replica'>;

/** A meter that also keeps count of what one replica handles, for its reports. */
export class ReplicaTally implements Meter {
  readonly #meter: Meter;
  #events = 0;
  #oldestSeconds = 0;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  count(...args: Parameters<Meter['count']>): void {
    const [name, , by = 1] = args;
    if (name === 'wg_keepalive_events_total') this.#events += by;
    this.#meter.count(...args);
  }

  gauge(...args: Parameters<Meter['gauge']>): void {
    this.#meter.gauge(...args);
  }

  observe(...args: Parameters<Meter['observe']>): void {
    const [name, , value] = args;
    if (name === 'wg_keepalive_event_age_seconds') this.#oldestSeconds = Math.max(this.#oldestSeconds, value);
    this.#meter.observe(...args);
  }

  remove(...args: Parameters<Meter['remove']>): void {
    this.#meter.remove(...args);
  }

  /** What was handled since it was asked last. */
  take(): Pick<ReplicaReport, 'events' | 'lagMs'> {
    const events = this.#events;
    const lagMs = Math.round(1e3 * this.#oldestSeconds);
    this.#events = 0;
    this.#oldestSeconds = 0;
    return events === 0 ? { events } : { events, lagMs };
  }
}

/** Tells what a replica handles until `signal` aborts. */
export async function reportReplica(
  who: Who,
  tally: ReplicaTally,
  { notices, clock }: { readonly notices: Notices; readonly clock: Clock },
  signal: AbortSignal,
): Promise<void> {
  let lastMs = clock.monotonicMs();
  for (let number = 1; ; number++) {
    await clock.sleep(REPORT_EVERY_MS, signal).catch(() => {});
    if (signal.aborted) return;
    const nowMs = clock.monotonicMs();
    const report: ReplicaReport = { ...who, periodMs: nowMs - lastMs, ...tally.take() };
    lastMs = nowMs;
    notices.tell(
      encodeCloudEvent(replicaSubject(who.function), {
        id: `${who.function}.${who.replica}.${number}`,
        source: `/functions/${who.function}`,
        type: REPLICA_REPORT_TYPE,
        data: report,
      }),
    );
  }
}
