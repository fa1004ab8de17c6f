import { CHANGE_TYPE, type Change } from '../domain/change.ts';
import type { BusMessage, CloudEvent } from '../domain/cloud-event.ts';
import { type ConnectionRef, connectionKey } from '../domain/connection.ts';
import type { OutcomeName } from '../domain/decision.ts';
import type { EventPlace } from '../domain/event-place.ts';
import type { FunctionSettings } from '../domain/function-settings.ts';
import { connectionOf, type Listed, OBSERVATION_TYPE, type TunnelEvent } from '../domain/observation.ts';
import { missingBefore } from '../domain/observation-gaps.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import {
  ASSUMED_UID,
  finalConnections,
  type ReplayStep,
  type ReplaySummary,
  type SkippedEvents,
  viewOf,
} from '../domain/replay-step.ts';
import { initialEntry } from '../domain/tunnel-status.ts';
import type { EventContext, FunctionDefinition, FunctionInstance, Outcome } from './define-function.ts';
import { type DecodeResult, eventChecker, eventDecoder } from './event-decoder.ts';
import { type Sandbox, sandbox } from './sandbox-ports.ts';

export type ReplayOptions = {
  /** The functions as they run in production. */
  readonly tunnelStatus: FunctionDefinition;
  readonly connectionAggregate: FunctionDefinition;
  readonly settings: FunctionSettings;
  /** The stream has nothing before the window: who is not listed in it was not listed. @defaultValue false */
  readonly fromStreamStart?: boolean;
  readonly onStep: (step: ReplayStep) => void;
};

/** Events that no function takes are all counted; of each kind so many become steps. */
const MAX_INVALID_STEPS = 10;

type Tunnel = {
  readonly ref: ConnectionRef;
  readonly interfaceId: string;
  /** A control event, or an assumption in its place, has said whether it is listed. */
  isKnown: boolean;
  isAssumed: boolean;
  gatewayEpoch: number;
  sequence: number;
  skipped: { throttled: number; stale: number; orphan: number };
};

/**
 * Runs the messages of OBSERVATIONS, in their order, through the functions in a sandbox. Time is what the messages say,
 * so the same messages give the same steps however fast and in whatever batches they come.
 *
 * The part of connection-ensure is played by the control events that it left in the stream: `listed` makes the Connection
 * and the entry, `unlisted` takes the entry away.
 */
export class Replay {
  readonly #onStep: (step: ReplayStep) => void;
  readonly #sandbox: Sandbox = sandbox();
  readonly #tunnelStatus: FunctionInstance<unknown>;
  readonly #aggregate: FunctionInstance<unknown>;
  readonly #check: (event: CloudEvent) => DecodeResult;
  readonly #decode: (message: BusMessage) => DecodeResult;
  readonly #fromStreamStart: boolean;
  readonly #tunnels = new Map<string, Tunnel>();
  readonly #outcomes: Record<OutcomeName, number> = {
    written: 0,
    throttled: 0,
    stale: 0,
    orphan: 0,
    invalid: 0,
    failed: 0,
  };
  readonly #invalid = new Map<string, number>();
  #events = 0;
  #steps = 0;
  #aggregateWrites = 0;
  #missing = 0;
  #first: EventPlace | undefined;
  #last: EventPlace | undefined;

  constructor({ tunnelStatus, connectionAggregate, settings, fromStreamStart = false, onStep }: ReplayOptions) {
    const { ports } = this.#sandbox;
    this.#fromStreamStart = fromStreamStart;
    this.#onStep = onStep;
    this.#tunnelStatus = tunnelStatus.create(ports, settings);
    this.#aggregate = connectionAggregate.create(ports, { ...settings, aggregateDelayMs: 0 });
    this.#check = eventChecker(tunnelStatus.manifest.accepts);
    this.#decode = eventDecoder(tunnelStatus.manifest.accepts);
  }

  /** One at a time, in the order of the stream. */
  async take(message: RecordedMessage): Promise<void> {
    const { sequence, storedAtUnixMs } = message;
    this.#events += 1;
    this.#last = { sequence, storedAtUnixMs };
    this.#first ??= this.#last;
    this.#sandbox.setTime(storedAtUnixMs);
    const checked = message.event === undefined ? this.#decode(message.raw) : this.#check(message.event);
    if ('error' in checked) this.#takeInvalid(message, checked.error);
    else await this.#takeEvent(checked.event as CloudEvent<TunnelEvent>, message);
  }

  /** What it has come to so far. */
  summary(): ReplaySummary {
    const assumed = [...this.#tunnels.values()].filter(({ isAssumed }) => isAssumed);
    return {
      events: this.#events,
      ...(this.#first === undefined ? {} : { first: this.#first }),
      ...(this.#last === undefined ? {} : { last: this.#last }),
      steps: this.#steps,
      outcomes: { ...this.#outcomes },
      writes: { tunnels: this.#outcomes.written, aggregates: this.#aggregateWrites },
      missing: this.#missing,
      assumed: assumed.map(({ ref, interfaceId }) => `${connectionKey(ref)} ${interfaceId}`).sort(),
      connections: finalConnections(this.#sandbox.connections.all()),
    };
  }

  async #takeEvent(event: CloudEvent<TunnelEvent>, message: RecordedMessage): Promise<void> {
    const { data } = event;
    const tunnel = this.#tunnelOf(data);
    if (!tunnel.isKnown) {
      tunnel.isKnown = true;
      if (!this.#isListingKnown(data)) await this.#assumeListed(tunnel, data, message);
    }
    if ('sequence' in data) this.#reportMissing(tunnel, missingBefore(tunnel, data), event, message);

    const outcome = await this.#tunnelStatus.handle(event, this.#context(message));
    this.#outcomes[outcome.outcome] += 1;
    if (outcome.outcome === 'written' || outcome.outcome === 'failed' || outcome.notable) {
      if (data.kind === 'listed') {
        await this.#learnUid(data, message);
        await this.#addEntry(tunnel.ref, data);
      }
      if (data.kind === 'unlisted') await this.#removeEntry(tunnel);
      this.#tellTunnelStep(tunnel, event, outcome, message);
      await this.#judgeAggregate(tunnel.ref, message);
    } else {
      tunnel.skipped[outcome.outcome as keyof SkippedEvents] += 1;
    }
  }

  /**
   * By the first event of a tunnel. Where the stream has nothing before the window, the first observation of a gateway run
   * came before any listing: an orphan. A later one says that the stream was made anew under a gateway that went on.
   */
  #isListingKnown(first: TunnelEvent): boolean {
    if (first.kind === 'listed' || first.kind === 'unlisted') return true;
    return this.#fromStreamStart && 'sequence' in first && first.sequence - (first.coalesced ?? 0) === 1;
  }

  #tunnelOf(data: TunnelEvent): Tunnel {
    const key = `${data.namespace}/${data.connection}/${data.interfaceId}`;
    let tunnel = this.#tunnels.get(key);
    if (tunnel === undefined) {
      tunnel = {
        ref: connectionOf(data),
        interfaceId: data.interfaceId,
        isKnown: false,
        isAssumed: false,
        gatewayEpoch: 0,
        sequence: 0,
        skipped: { throttled: 0, stale: 0, orphan: 0 },
      };
      this.#tunnels.set(key, tunnel);
    }
    return tunnel;
  }

  /** The window starts after the listing: what is observed of the tunnel says that there was one. */
  async #assumeListed(tunnel: Tunnel, data: TunnelEvent, message: RecordedMessage): Promise<void> {
    tunnel.isAssumed = true;
    const uid = this.#sandbox.connections.peek(tunnel.ref)?.metadata.uid ?? ASSUMED_UID;
    await this.#listAs(tunnel, uid, data, message);
    this.#tell(message, {
      kind: 'assumed',
      reason: 'WindowStartsLater',
      connection: tunnel.ref,
      interfaceId: tunnel.interfaceId,
      message: `the window starts after ${tunnel.interfaceId} was listed: taken as listed, Connecting`,
    });
  }

  async #listAs(
    { ref, interfaceId, gatewayEpoch }: Tunnel,
    connectionUid: string,
    event: Pick<TunnelEvent, 'gatewayEpoch' | 'observedAt'>,
    message: RecordedMessage,
  ): Promise<void> {
    const data: Listed = {
      namespace: ref.namespace,
      connection: ref.name,
      interfaceId,
      kind: 'listed',
      connectionUid,
      gatewayEpoch: gatewayEpoch || event.gatewayEpoch,
      observedAt: event.observedAt,
    };
    const id = `assumed.${interfaceId}.${message.sequence}`;
    await this.#tunnelStatus.handle({ id, source: '/replay', type: OBSERVATION_TYPE, data }, this.#context(message));
    await this.#addEntry(ref, data);
  }

  /** A listing tells the uid that was only assumed: the Connection and its other tunnels are the same as before. */
  async #learnUid(data: Listed, message: RecordedMessage): Promise<void> {
    const ref = connectionOf(data);
    if (this.#sandbox.connections.peek(ref)?.metadata.uid !== ASSUMED_UID) return;
    this.#sandbox.connections.rename(ref, data.connectionUid);
    for (const tunnel of this.#tunnels.values()) {
      const isOther = tunnel.isAssumed && tunnel.interfaceId !== data.interfaceId;
      if (isOther && connectionKey(tunnel.ref) === connectionKey(ref)) {
        await this.#listAs(tunnel, data.connectionUid, data, message);
      }
    }
  }

  /** What connection-ensure had done by the time it said `listed`. */
  async #addEntry(ref: ConnectionRef, { interfaceId, connectionUid, observedAt }: Listed): Promise<void> {
    const { connections } = this.#sandbox;
    const current = connections.peek(ref);
    if (current?.metadata.uid !== connectionUid) connections.create(ref, connectionUid, observedAt);
    else if (current.status?.tunnels?.some(({ interfaceID }) => interfaceID === interfaceId)) return;
    await connections.applyTunnel(ref, initialEntry(interfaceId, observedAt));
  }

  async #removeEntry({ ref, interfaceId }: Tunnel): Promise<void> {
    if (this.#sandbox.connections.peek(ref) !== undefined) {
      await this.#sandbox.connections.removeTunnel(ref, interfaceId);
    }
  }

  /** The change of the Connection goes to connection-aggregate as connection-watch would tell it. */
  async #judgeAggregate(ref: ConnectionRef, message: RecordedMessage): Promise<void> {
    const object = this.#sandbox.connections.peek(ref);
    if (object === undefined) return;
    const { uid, resourceVersion } = object.metadata;
    const data: Change = { kind: 'connections', type: 'MODIFIED', object };
    const change = { id: `change.${uid}.${resourceVersion}`, source: '/replay', type: CHANGE_TYPE, data };
    const outcome = await this.#aggregate.handle(change, this.#context(message));
    if (outcome.outcome === 'written') this.#aggregateWrites += 1;
    else if (outcome.outcome !== 'failed') return;
    this.#tell(message, {
      kind: outcome.outcome,
      reason: outcome.reason,
      function: 'connection-aggregate',
      connection: ref,
      before: outcome.before,
      after: outcome.after,
    });
  }

  #tellTunnelStep(tunnel: Tunnel, event: CloudEvent, outcome: Outcome, message: RecordedMessage): void {
    const { skipped } = tunnel;
    const isListing = outcome.outcome !== 'written' && outcome.outcome !== 'failed';
    this.#tell(message, {
      kind: isListing ? 'listing' : (outcome.outcome as 'written' | 'failed'),
      reason: outcome.reason,
      function: 'tunnel-status',
      connection: tunnel.ref,
      interfaceId: tunnel.interfaceId,
      eventId: event.id,
      ...(isListing ? {} : { before: outcome.before, after: outcome.after }),
      ...(skipped.throttled + skipped.stale + skipped.orphan === 0 ? {} : { skipped }),
    });
    tunnel.skipped = { throttled: 0, stale: 0, orphan: 0 };
  }

  #reportMissing(tunnel: Tunnel, count: number, event: CloudEvent, message: RecordedMessage): void {
    if (count === 0) return;
    this.#missing += count;
    this.#tell(message, {
      kind: 'missing',
      reason: 'ObservationsMissing',
      connection: tunnel.ref,
      interfaceId: tunnel.interfaceId,
      eventId: event.id,
      message: `${count} observations before number ${tunnel.sequence} of gateway run ${tunnel.gatewayEpoch} are not in the stream`,
    });
  }

  #takeInvalid(message: RecordedMessage, error: Extract<DecodeResult, { error: unknown }>['error']): void {
    this.#outcomes.invalid += 1;
    const count = (this.#invalid.get(error.reason) ?? 0) + 1;
    this.#invalid.set(error.reason, count);
    if (count <= MAX_INVALID_STEPS) {
      const eventId = message.event?.id;
      const known = eventId === undefined ? {} : { eventId };
      this.#tell(message, { kind: 'invalid', reason: error.reason, message: error.message, ...known });
    }
  }

  #tell(message: RecordedMessage, step: Omit<ReplayStep, 'step' | 'sequence' | 'storedAtUnixMs' | 'shows'>): void {
    this.#steps += 1;
    const { sequence, storedAtUnixMs } = message;
    const connection = step.connection && this.#sandbox.connections.peek(step.connection);
    const shows = connection === undefined ? {} : { shows: viewOf(connection) };
    this.#onStep({ step: this.#steps, sequence, storedAtUnixMs, ...step, ...shows });
  }

  #context({ sequence, storedAtUnixMs }: RecordedMessage): EventContext {
    return {
      attemptSignal: neverAborted,
      nextAttempt: neverAborted,
      consumer: 'replay',
      streamSequence: sequence,
      storedAtUnixMs,
      deliveryCount: 1,
      pending: 0,
      uninterrupted: true,
      previous: nothingBefore,
    };
  }
}

const NEVER = new AbortController().signal;

/** What was handled is remembered: a replay is never interrupted. */
async function nothingBefore(): Promise<undefined> {}

function neverAborted(): AbortSignal {
  return NEVER;
}
