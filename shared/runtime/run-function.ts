import { encodeCloudEvent } from '../domain/cloud-event.ts';
import { DEAD_LETTER_TYPE, deadLetterOf } from '../domain/dead-letter.ts';
import type { FunctionSettings } from '../domain/function-settings.ts';
import { deadLetterSubject } from '../domain/subjects.ts';
import type { ConsumerSpec } from '../domain/topology.ts';
import { BusError, type Delivery, type Settlement } from '../ports/event-bus.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import { attemptTimer } from './attempt-timer.ts';
import { BoundedMap } from './bounded-map.ts';
import { decisionRecorder } from './decision-recorder.ts';
import type { EventContext, EventHandler, FunctionDefinition, Outcome } from './define-function.ts';
import { type EventDecoder, eventDecoder } from './event-decoder.ts';
import { type PreviousEvents, previousEvents } from './previous-events.ts';
import { retrying } from './retrying.ts';

/** Deliveries of one event that may end in an unexpected error before it counts as poisonous. */
const MAX_ATTEMPTS = 5;
const MAX_UNTOLD = 1_024;
const RETRY_MS = 250;
const MAX_RETRY_MS = 30_000;
/** Shorter: while an event waits for the bus, so does its partition. */
const MAX_BUS_RETRY_MS = 5_000;

/**
 * Runs one replica of a function until `signal` aborts: decode → validate → handle → settle, on every consumer of its
 * manifest. Resolves when what was in work is settled. Never rejects for a fault of an event, the bus or the API.
 */
export async function runFunction(
  definition: FunctionDefinition,
  ports: FunctionPorts,
  settings: FunctionSettings,
  signal: AbortSignal,
): Promise<void> {
  const { manifest } = definition;
  const { log } = ports;
  const instance = definition.create(ports, settings);
  const { start } = instance;
  if (start) {
    const { clock, bus } = ports;
    await retrying(() => start(signal), { clock, log, signal, bus, what: `start of ${manifest.name}` });
  }
  if (signal.aborted) return;
  const decode = eventDecoder(manifest.accepts);
  const process = eventProcessor(definition, instance.handle, decode, ports);
  await Promise.all(
    manifest.consumers.map((consumer) => {
      const placeOf = deliveryPlaces(consumer, previousEvents(ports.bus, decode, consumer));
      return ports.bus.consume(consumer, (delivery) => process(delivery, placeOf(delivery), signal), signal);
    }),
  );
}

/** Where a delivery stands among those of its consumer; asked for only where the handler is called. */
type PlaceOf = () => Pick<EventContext, 'consumer' | 'uninterrupted' | 'previous'>;

type Process = (delivery: Delivery, placeOf: PlaceOf, signal: AbortSignal) => Promise<Settlement>;

/**
 * Knows whether another replica handled an event of this consumer since the handler was called last: a delivery that never
 * came to it, an invalid one say, closes no gap.
 */
function deliveryPlaces({ durable }: ConsumerSpec, previousOf: PreviousEvents): (delivery: Delivery) => PlaceOf {
  let lastDelivered = 0;
  let isInterrupted = true;
  return (delivery) => {
    const isNext = delivery.deliverySequence === lastDelivered + 1;
    lastDelivered = delivery.deliverySequence;
    isInterrupted ||= !isNext;
    const previous = previousOf(delivery, isNext);
    return () => {
      const uninterrupted = !isInterrupted;
      isInterrupted = false;
      return { consumer: durable, uninterrupted, previous };
    };
  };
}

/** One event from bytes to settlement; the one place for its metric, log line, decision and dead letter. */
function eventProcessor(
  { manifest }: FunctionDefinition,
  handle: EventHandler<unknown>,
  decode: EventDecoder,
  ports: FunctionPorts,
): Process {
  const { bus, clock, meter, log } = ports;
  const record = decisionRecorder(manifest.name, ports);
  /** Of events whose decision could not be published: handled again they would seem to have needed nothing. */
  const untold = new BoundedMap<string, Outcome>(MAX_UNTOLD);

  async function deadLetter(delivery: Delivery, reason: string, message: string): Promise<void> {
    const at = new Date(clock.unixMs()).toISOString();
    const letter = deadLetterOf(delivery, { function: manifest.name, reason, message, at });
    const id = `${manifest.name}.${delivery.stream}.${delivery.streamSequence}`;
    await bus.publish(
      encodeCloudEvent(deadLetterSubject(manifest.name), {
        id,
        source: `/functions/${manifest.name}`,
        type: DEAD_LETTER_TYPE,
        time: at,
        data: letter,
      }),
    );
    meter.count('wg_keepalive_events_total', { function: manifest.name, outcome: 'invalid' });
    log.warn({ stream: delivery.stream, seq: delivery.streamSequence, reason, detail: message }, 'event dead-lettered');
  }

  async function handled(delivery: Delivery, placeOf: PlaceOf, signal: AbortSignal): Promise<Settlement> {
    const decoded = decode(delivery);
    if ('error' in decoded) {
      await deadLetter(delivery, decoded.error.reason, decoded.error.message);
      return ACK;
    }
    using attempt = attemptTimer(clock, manifest.attemptTimeoutMs, signal);
    const { id } = decoded.event;
    const outcome =
      untold.get(id) ??
      (await handle(decoded.event, {
        attemptSignal: attempt.signal,
        nextAttempt: attempt.next,
        ...placeOf(),
        streamSequence: delivery.streamSequence,
        storedAtUnixMs: delivery.storedAtUnixMs,
        deliveryCount: delivery.deliveryCount,
        pending: delivery.pending,
      }));
    if (outcome.outcome === 'invalid') {
      await deadLetter(delivery, outcome.reason, 'refused by the handler');
      return ACK;
    }
    const settlement = settlementOf(outcome, delivery);
    try {
      await record(decoded.event, outcome, delivery);
    } catch (err) {
      if (settlement.kind === 'ack') untold.set(id, outcome);
      throw err;
    }
    untold.delete(id);
    return settlement;
  }

  function settlementOf({ outcome, comesBack, retryAfterMs }: Outcome, { deliveryCount }: Delivery): Settlement {
    if (outcome !== 'failed' || comesBack) return ACK;
    if (manifest.onFailure === 'ack') return { kind: 'ack', failed: true };
    return retry(retryAfterMs ?? backOffMs(deliveryCount));
  }

  return async (delivery, placeOf, signal) => {
    try {
      return await handled(delivery, placeOf, signal);
    } catch (err) {
      if (signal.aborted) return retry(0);
      if (err instanceof BusError) return retry(Math.min(backOffMs(delivery.deliveryCount), MAX_BUS_RETRY_MS));
      log.error(
        { err, stream: delivery.stream, seq: delivery.streamSequence, attempt: delivery.deliveryCount },
        'handler threw',
      );
      if (delivery.deliveryCount < MAX_ATTEMPTS) return retry(backOffMs(delivery.deliveryCount));
      try {
        await deadLetter(delivery, 'Poisonous', `${(err as Error).name}: ${(err as Error).message}`);
        return ACK;
      } catch {
        return retry(MAX_RETRY_MS);
      }
    }
  };
}

const ACK: Settlement = { kind: 'ack' };

function retry(delayMs: number): Settlement {
  return { kind: 'retry', delayMs };
}

function backOffMs(deliveryCount: number): number {
  return Math.min(RETRY_MS * 2 ** (deliveryCount - 1), MAX_RETRY_MS);
}
