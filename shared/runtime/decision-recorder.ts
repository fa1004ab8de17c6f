import { type CloudEvent, encodeCloudEvent } from '../domain/cloud-event.ts';
import { connectionKey } from '../domain/connection.ts';
import { DECISION_TYPE, type Decision } from '../domain/decision.ts';
import { decisionSubject } from '../domain/subjects.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import type { Outcome } from './define-function.ts';

/** Counts every outcome; publishes those that somebody will ask about, the throttled ones between them as a number. */
export function decisionRecorder(
  functionName: string,
  { bus, clock, meter, log }: Pick<FunctionPorts, 'bus' | 'clock' | 'meter' | 'log'>,
): (event: CloudEvent, outcome: Outcome, delivery: { readonly storedAtUnixMs: number }) => Promise<void> {
  const throttledSince = new Map<string, number>();

  return async (event, outcome, { storedAtUnixMs }) => {
    meter.count('wg_keepalive_events_total', { function: functionName, outcome: outcome.outcome });
    meter.observe(
      'wg_keepalive_event_age_seconds',
      { function: functionName },
      Math.max(0, clock.unixMs() - storedAtUnixMs) / 1_000,
    );
    const { connection, interfaceId } = outcome;
    if (connection === undefined) return;
    const key = `${connectionKey(connection)}/${interfaceId ?? ''}`;
    if (outcome.outcome === 'throttled' && !outcome.notable) {
      throttledSince.set(key, (throttledSince.get(key) ?? 0) + 1);
      return;
    }
    const decision: Decision = {
      function: functionName,
      namespace: connection.namespace,
      connection: connection.name,
      ...(interfaceId === undefined ? {} : { interfaceId }),
      eventId: event.id,
      outcome: outcome.outcome,
      reason: outcome.reason,
      ...(outcome.before === undefined ? {} : { before: outcome.before }),
      ...(outcome.after === undefined ? {} : { after: outcome.after }),
      throttledSince: throttledSince.get(key) ?? 0,
      decidedAt: new Date(clock.unixMs()).toISOString(),
    };
    await bus.publish(
      encodeCloudEvent(decisionSubject(connection), {
        id: `${functionName}.${event.id}`,
        source: `/functions/${functionName}`,
        type: DECISION_TYPE,
        time: decision.decidedAt,
        data: decision,
      }),
    );
    throttledSince.delete(key);
    log.debug(
      { connection: key, eventId: event.id, outcome: outcome.outcome, reason: outcome.reason },
      'event handled',
    );
  };
}
