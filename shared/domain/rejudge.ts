import { INITIAL_PATIENCE_MS } from './answer-patience.ts';
import type { CloudEvent } from './cloud-event.ts';
import { type ConnectionValue, connectionKey } from './connection.ts';
import { connectionOf, OBSERVATION_TYPE, type Observation, type TunnelEvent } from './observation.ts';
import type { RecordedMessage } from './recorded-message.ts';
import { formatRfc3339Ms, parseRfc3339, unixMsOf } from './rfc3339-nanos.ts';

/** How long a tunnel may go without a PONG, and how often it is asked. */
export type VerdictSettings = { readonly intervalMs: number; readonly lossThreshold: number };

/**
 * Judges recorded PONGs and misses as a gateway with other settings would have: what each observation says of its PING
 * stays, the verdicts (`value`, `down`) are derived anew. Time is the gateway's own, `monotonicMs`.
 *
 * What a recording cannot say: a gateway with other settings would have sent other PINGs while it took the tunnel for
 * down, so a recovery may show up to one interval later here than there. Starvation of the gateway is not known either.
 */
export class Rejudge {
  readonly #recorded: VerdictSettings;
  readonly #wanted: VerdictSettings;
  readonly #windowMs: number;
  /** By Connection, then interface. */
  readonly #runs = new Map<string, Map<string, Tunnel>>();

  /** @throws RangeError for an interval under the recorded one: the PINGs between were never sent */
  constructor(recorded: VerdictSettings, wanted: VerdictSettings) {
    if (wanted.intervalMs < recorded.intervalMs) {
      throw new RangeError(`interval ${wanted.intervalMs} ms: want at least the recorded ${recorded.intervalMs} ms`);
    }
    this.#recorded = recorded;
    this.#wanted = wanted;
    this.#windowMs = wanted.intervalMs * wanted.lossThreshold;
  }

  /** What stands in the place of `message`, which is valid; in the order in which it would have been said. */
  take(message: RecordedMessage): readonly RecordedMessage[] {
    const event = message.event as CloudEvent<TunnelEvent> | undefined;
    if (event?.type !== OBSERVATION_TYPE) return [message];
    const { data } = event;
    const run = this.#runOf(data);
    if (data.kind === 'unlisted') run.delete(data.interfaceId);
    if (!('sequence' in data) || data.kind === 'unmonitored') return [message];

    const tunnel = this.#tunnelOf(run, data);
    if (tunnel === undefined) return [asStale(message, data)];
    const due = [...run.values()].flatMap((other) => this.#deadline(other, data, message) ?? []);
    const rejudged = this.#judge(tunnel, data);
    return rejudged === undefined ? due : [...due, withData(message, event.id, rejudged)];
  }

  #runOf(data: TunnelEvent): Map<string, Tunnel> {
    const key = connectionKey(connectionOf(data));
    let run = this.#runs.get(key);
    if (run === undefined) {
      run = new Map();
      this.#runs.set(key, run);
    }
    return run;
  }

  /** `undefined`: the observation is not newer than what is known. */
  #tunnelOf(run: Map<string, Tunnel>, data: Observation): Tunnel | undefined {
    const known = run.get(data.interfaceId);
    if (known !== undefined && data.gatewayEpoch < known.gatewayEpoch) return undefined;
    if (known !== undefined && data.gatewayEpoch === known.gatewayEpoch) {
      if (data.sequence <= known.recordedSequence) return undefined;
      known.recordedSequence = data.sequence;
      return known;
    }
    const tunnel = this.#begin(data);
    run.set(data.interfaceId, tunnel);
    return tunnel;
  }

  /** The first observation of a run in the window: how long the tunnel had been silent then, it says itself. */
  #begin(data: Observation): Tunnel {
    const { intervalMs } = this.#recorded;
    const askedAtMs = this.#askedAtMs(data);
    const misses = Math.max(0, (data.consecutiveMisses ?? 0) - 1);
    const silentForMs = (misses + (data.sequence === 1 ? 0 : 1)) * intervalMs;
    return {
      data,
      gatewayEpoch: data.gatewayEpoch,
      recordedSequence: data.sequence,
      sequence: data.sequence - 1,
      value: data.sequence === 1 ? 'Connecting' : data.value,
      hasAnswered: data.value === 'Connected',
      heardAtMs: data.kind === 'pong' && data.sequence > 1 ? data.monotonicMs : askedAtMs - silentForMs,
      lastSlot: Number.NEGATIVE_INFINITY,
    };
  }

  /** When the PING went out that the observation is about: a miss is told when the patience for it has run out. */
  #askedAtMs({ kind, monotonicMs, rttNs = 0 }: Observation): number {
    const { intervalMs, lossThreshold } = this.#recorded;
    const patienceMs = Math.min(Math.max(intervalMs, INITIAL_PATIENCE_MS), intervalMs * lossThreshold);
    return monotonicMs - (kind === 'pong' ? rttNs / 1e6 : patienceMs);
  }

  /** The tunnel's deadline, if it has passed by the time of an observation of the same gateway run. */
  #deadline(tunnel: Tunnel, evidence: Observation, message: RecordedMessage): RecordedMessage | undefined {
    const deadlineMs = tunnel.heardAtMs + this.#windowMs;
    if (tunnel.gatewayEpoch !== evidence.gatewayEpoch || tunnel.value === 'Error') return undefined;
    // A PONG that comes with the deadline is read first; of a verdict the time is rounded.
    const isVerdict = evidence.kind === 'down' && evidence.interfaceId === tunnel.data.interfaceId;
    if (deadlineMs >= evidence.monotonicMs + (isVerdict ? ROUNDING_MS : 0)) return undefined;
    const agoMs = Math.max(0, evidence.monotonicMs - deadlineMs);
    this.#down(tunnel);
    const { reason, message: text } = tunnel;
    const down: Observation = {
      ...namesOf(tunnel.data),
      gatewayEpoch: tunnel.gatewayEpoch,
      sequence: ++tunnel.sequence,
      monotonicMs: deadlineMs,
      kind: 'down',
      value: 'Error',
      observedAt: earlier(evidence.observedAt, agoMs),
      ...(reason === undefined ? {} : { reason }),
      ...(text === undefined ? {} : { message: text }),
    };
    const id = `rejudged.${down.interfaceId}.${down.gatewayEpoch}.${down.sequence}`;
    return withData({ ...message, storedAtUnixMs: message.storedAtUnixMs - agoMs }, id, down);
  }

  #down(tunnel: Tunnel): void {
    tunnel.value = 'Error';
    tunnel.reason = tunnel.hasAnswered ? 'Lost' : 'NeverAnswered';
    tunnel.message = tunnel.lastPongAt === undefined ? 'no PONG in the window' : `no PONG since ${tunnel.lastPongAt}`;
  }

  /** `undefined`: with the wanted interval this PING would not have been sent. */
  #judge(tunnel: Tunnel, data: Observation): Observation | undefined {
    if (!this.#wouldHaveAsked(tunnel, data)) return undefined;
    const { reason, message, ...rest } = data;
    const explained = { ...(reason === undefined ? {} : { reason }), ...(message === undefined ? {} : { message }) };
    const sequence = ++tunnel.sequence;
    if (data.kind === 'pong') {
      tunnel.heardAtMs = data.monotonicMs;
      tunnel.lastPongAt = data.observedAt;
      tunnel.hasAnswered = true;
      tunnel.value = 'Connected';
      return { ...rest, ...explained, sequence, value: 'Connected' };
    }
    if (tunnel.value === 'Error') {
      const own = { reason: tunnel.reason ?? 'Lost', message: tunnel.message ?? 'no PONG in the window' };
      return { ...rest, ...(data.kind === 'down' ? explained : own), sequence, kind: 'down', value: 'Error' };
    }
    // Why it was down in the recording is no reason here; why a PING was not sent still is.
    const own = data.value === 'Error' ? {} : explained;
    return { ...rest, ...own, sequence, kind: 'miss', value: tunnel.value };
  }

  #wouldHaveAsked(tunnel: Tunnel, data: Observation): boolean {
    if (this.#wanted.intervalMs === this.#recorded.intervalMs) return true;
    if (data.kind === 'pong' && tunnel.value === 'Error') return true;
    const slot = Math.floor((this.#askedAtMs(data) + this.#recorded.intervalMs / 2) / this.#wanted.intervalMs);
    if (slot <= tunnel.lastSlot) return false;
    tunnel.lastSlot = slot;
    return true;
  }
}

const ROUNDING_MS = 1;

type Tunnel = {
  /** The first observation of the run, for its names. */
  readonly data: Observation;
  readonly gatewayEpoch: number;
  recordedSequence: number;
  /** Of what is said instead; it goes on from the first one's, which tells whether it was the first of its run. */
  sequence: number;
  value: ConnectionValue;
  hasAnswered: boolean;
  /** The deadline is one window after this. */
  heardAtMs: number;
  lastPongAt?: string;
  reason?: string;
  message?: string;
  /** Of the wanted interval, in which a PING was counted last. */
  lastSlot: number;
};

function namesOf({ namespace, connection, interfaceId }: Observation) {
  return { namespace, connection, interfaceId };
}

/** An observation that came too late stays one, whatever the numbers of those before it have become. */
function asStale(message: RecordedMessage, data: Observation): RecordedMessage {
  return withData(message, message.event?.id ?? '', { ...data, sequence: 1 });
}

function withData(message: RecordedMessage, id: string, data: TunnelEvent): RecordedMessage {
  const { stream, sequence, storedAtUnixMs, event } = message;
  const source = event?.source ?? '/replay';
  return { stream, sequence, storedAtUnixMs, event: { id, source, type: OBSERVATION_TYPE, data } };
}

function earlier(label: string, byMs: number): string {
  const instant = parseRfc3339(label);
  return instant === undefined ? label : formatRfc3339Ms(unixMsOf(instant) - byMs);
}
