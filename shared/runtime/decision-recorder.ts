import { type CloudEvent, encodeCloudEvent } from '../domain/cloud-event.ts';
import { connectionKey } from '../domain/connection.ts';
import { DECISION_TYPE, type Decision } from '../domain/decision.ts';
import { decisionSubject } from '../domain/subjects.ts';
import { BusError } from '../ports/event-bus.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import { BoundedMap } from './bounded-map.ts';
import type { Outcome } from './define-function.ts';
import { LogLimiter } from './log-limiter.ts';

/** Tunnels whose throttled events are counted; of one that is forgotten, the next decision says fewer. */
const MAX_TUNNELS = 10_000;
const COMPLAIN_EVERY_MS = 60_000;
/** An event is handed out again this often for its decision's sake, then the decision is given up: the data path goes first. */
const MAX_ATTEMPTS = 3;

type Delivered = { readonly storedAtUnixMs: number; readonly deliveryCount: number };
type Ports = Pick<FunctionPorts, 'bus' | 'clock' | 'meter' | 'log'>;

/**
 * Counts every outcome, once its decision is told; publishes those decisions that somebody will ask about, the throttled
 * events between them as a number.
 *
 * @throws BusError while the decision cannot be published and another try may help
 */
export function decisionRecorder(functionName: string, ports: Ports) {
  const { clock, meter, log } = ports;
  const throttledSince = new BoundedMap<string, { count: number }>(MAX_TUNNELS);
  const publish = decisionPublisher(functionName, ports);
  const labels = { function: functionName };

  return async (event: CloudEvent, outcome: Outcome, delivered: Delivered): Promise<void> => {
    const { connection, interfaceId, superseded, shownAgeMs } = outcome;
    if (connection !== undefined) {
      const key = `${connectionKey(connection)}/${interfaceId ?? ''}`;
      if (isOnlyCounted(outcome)) {
        const known = throttledSince.get(key);
        if (known === undefined) throttledSince.set(key, { count: 1 });
        else known.count += 1;
      } else {
        const about = { namespace: connection.namespace, connection: connection.name };
        await publish(
          {
            function: functionName,
            ...about,
            ...(interfaceId !== undefined && { interfaceId }),
            eventId: event.id,
            outcome: outcome.outcome,
            reason: outcome.reason,
            ...(outcome.before !== undefined && { before: outcome.before }),
            ...(outcome.after !== undefined && { after: outcome.after }),
            ...(outcome.judgedBy && { judgedBy: outcome.judgedBy }),
            ...(superseded && { superseded }),
            throttledSince: throttledSince.get(key)?.count ?? 0,
            decidedAt: new Date(clock.unixMs()).toISOString(),
          },
          delivered,
        );
        throttledSince.delete(key);
        const { reason } = outcome;
        log.debug({ connection: key, eventId: event.id, outcome: outcome.outcome, reason }, 'event handled');
      }
    }
    meter.count('wg_keepalive_events_total', { function: functionName, outcome: outcome.outcome });
    meter.observe('wg_keepalive_event_age_seconds', labels, ageSeconds(clock.unixMs() - delivered.storedAtUnixMs));
    if (superseded) meter.count('wg_keepalive_superseded_transitions_total', labels, superseded);
    if (shownAgeMs !== undefined) meter.observe('wg_keepalive_shown_age_seconds', labels, shownAgeMs / 1_000);
  };
}

function isOnlyCounted({ outcome, notable, superseded }: Outcome): boolean {
  return outcome === 'throttled' && !notable && !superseded;
}

/** The clocks of two hosts: an event from the future is young. */
function ageSeconds(ageMs: number): number {
  return Math.max(0, ageMs) / 1_000;
}

function decisionPublisher(functionName: string, { bus, clock, meter, log }: Ports) {
  const limiter = new LogLimiter(log, clock, COMPLAIN_EVERY_MS);

  return async (decision: Decision, { deliveryCount }: Delivered): Promise<void> => {
    const message = encodeCloudEvent(decisionSubject({ namespace: decision.namespace, name: decision.connection }), {
      // An event that comes again may end otherwise: a repeat is what says the same.
      id: `${functionName}.${decision.eventId}.${decision.outcome}`,
      source: `/functions/${functionName}`,
      type: DECISION_TYPE,
      time: decision.decidedAt,
      data: decision,
    });
    try {
      await bus.publish(message);
    } catch (err) {
      if (!(err instanceof BusError) || (isPassing(err) && deliveryCount < MAX_ATTEMPTS)) throw err;
      meter.count('wg_keepalive_decisions_lost_total', { function: functionName, code: err.code });
      limiter.write('warn', err.code, { err }, 'decision not published; the event counts as handled all the same');
    }
  };
}

function isPassing({ code }: BusError): boolean {
  return code === 'unavailable' || code === 'timeout';
}
