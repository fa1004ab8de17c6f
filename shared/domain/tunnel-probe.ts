import { AnswerPatience } from './answer-patience.ts';
import type { ConnectionValue } from './connection.ts';
import { MAX_RTT_NS } from './observation.ts';
import { OutstandingPings, type PingState, type SentPing } from './outstanding-pings.ts';
import { PingCadence } from './ping-cadence.ts';
import type { UnixNanos } from './rfc3339-nanos.ts';
import { RttWindow } from './rtt-statistics.ts';
import type { Moment, ProbeSnapshot, Sighting, TunnelVoice } from './sighting.ts';
import { durationOf, NOTABLE_STALL_MS, type Stall } from './stall.ts';
import { type TunnelReason, tunnelReason } from './tunnel-reason.ts';

export type ProbeSettings = {
  readonly intervalMs: number;
  readonly lossThreshold: number;
  /** After a first miss, probe this often until a PONG comes. Left out: never. */
  readonly suspectIntervalMs?: number;
};

/** Why a PONG changes nothing. */
export type PongFault = 'unknown' | 'duplicate' | 'late' | 'reordered';

/** Longest time between two probes of a tunnel that is down. */
export const RECOVERY_INTERVAL_MS = 250;

const FAULT_OF_STATE: Record<Exclude<PingState, 'outstanding'>, PongFault> = {
  answered: 'duplicate',
  missed: 'late',
  overtaken: 'reordered',
  refused: 'unknown',
};

/**
 * What one tunnel is, as far as its PINGs and PONGs tell: the verdicts of section "tunnel" in the specification.
 * It has no clock: whoever drives it says what time it is, in milliseconds since the run began.
 *
 *     Connecting ──PONG──▶ Connected ──deadline──▶ Error ──PONG──▶ Connected
 *          └───────────────deadline─────────────────▲
 */
export class TunnelProbe {
  readonly #voice: TunnelVoice;
  readonly #settings: ProbeSettings;
  readonly #windowMs: number;
  readonly #cadence: PingCadence;
  readonly #pings: OutstandingPings;
  readonly #rtt = new RttWindow();
  readonly #patience: AnswerPatience;
  readonly #firstDue: Moment;

  #value: ConnectionValue = 'Connecting';
  #sequence: number;
  /** The deadline is one window after this. */
  #heardAtMs: number;
  #lastPong: Moment | undefined;
  #nextDownAtMs = Number.POSITIVE_INFINITY;
  #isSuspect = false;
  #sendError: string | undefined;
  #stall: Stall | undefined;
  #hasLatePongs = false;
  #consecutiveMisses = 0;
  #transitions = 0;
  #transitionedAtUnixMs: number | undefined;
  #pingsSent = 0;
  #pongsReceived = 0;
  readonly #sendErrors = new Map<string, number>();
  #deadlineDeviationsMs: number[] = [];

  /** @param firstDue - when its first PING is due */
  constructor(voice: TunnelVoice, settings: ProbeSettings, firstDue: Moment) {
    this.#voice = voice;
    this.#sequence = voice.lastSequence;
    this.#settings = settings;
    this.#windowMs = settings.intervalMs * settings.lossThreshold;
    this.#firstDue = firstDue;
    this.#heardAtMs = firstDue.monotonicMs;
    this.#cadence = new PingCadence(firstDue.monotonicMs, settings.intervalMs);
    this.#patience = new AnswerPatience(settings.intervalMs, this.#windowMs);
    this.#pings = new OutstandingPings(ringCapacity(settings, this.#windowMs));
  }

  get interfaceId(): string {
    return this.#voice.interfaceId;
  }

  get sequence(): number {
    return this.#sequence;
  }

  get value(): ConnectionValue {
    return this.#value;
  }

  /** No PONG has ever come, and nothing on this side stands in the way of one. */
  get isMute(): boolean {
    const isSending = this.#sendError === undefined || this.#sendError === 'ECONNREFUSED';
    return this.#lastPong === undefined && isSending;
  }

  /** When a PING is due next. */
  sendAtMs(): number {
    return this.#cadence.nextAtMs();
  }

  /** When a PING becomes a miss or the tunnel becomes, or is again said to be, Error. */
  judgeAtMs(): number {
    const oldest = this.#pings.oldestOutstanding();
    const missAtMs = oldest === undefined ? Number.POSITIVE_INFINITY : oldest.sentAtMs + this.#patience.ms;
    return Math.min(missAtMs, this.#value === 'Error' ? this.#nextDownAtMs : this.#deadlineMs());
  }

  /** Whether a PING is due, which the caller then sends and reports with {@link sent}. */
  takeDue(nowMs: number): 'regular' | 'extra' | undefined {
    return this.#cadence.take(nowMs);
  }

  /** A PING goes out; stamps grow. While the tunnel is down, `down` speaks for all its PINGs. */
  sent(stamp: UnixNanos, now: Moment, due: 'regular' | 'extra'): void {
    const observed = due === 'regular' && this.#value !== 'Error';
    const evicted = this.#pings.add({ stamp, sentAtMs: now.monotonicMs, observed, state: 'outstanding' });
    if (evicted !== undefined) this.#miss(evicted, 'missed', now);
  }

  /** The kernel took the PING. */
  accepted(): void {
    this.#pingsSent += 1;
    this.#sendError = undefined;
  }

  /** The PING `stamp` was not sent. */
  refused(stamp: UnixNanos, code: string, now: Moment): void {
    this.failed(code);
    const ping = this.#pings.find(stamp);
    if (ping?.state === 'outstanding') this.#miss(ping, 'refused', now);
  }

  /** Something that was sent came to nothing, as the kernel learnt later: the peer's port is closed, say. */
  failed(code: string): void {
    this.#sendErrors.set(code, (this.#sendErrors.get(code) ?? 0) + 1);
    this.#sendError = code;
  }

  /**
   * A PONG of this tunnel, from its peer. Counts once, only for a PING that is outstanding, never older over newer.
   *
   * @param stall - given while what had piled up during it is read: such a round trip says more of us than of the tunnel
   */
  pong(stamp: UnixNanos, now: Moment, stall?: Stall): 'counted' | PongFault {
    const ping = this.#pings.find(stamp);
    if (ping === undefined) return 'unknown';
    const rttNs = Math.max(1, Math.round((now.monotonicMs - ping.sentAtMs) * 1e6));
    const isMeasured = stall === undefined || ping.sentAtMs >= stall.to.monotonicMs;
    if (ping.state !== 'outstanding') {
      if (ping.state !== 'missed') return FAULT_OF_STATE[ping.state];
      this.#hasLatePongs = true;
      if (isMeasured) this.#patience.learn(rttNs / 1e6);
      return 'late';
    }
    const knownRttNs = isMeasured ? rttNs : (this.#rtt.minRttNs() ?? rttNs);
    if (knownRttNs > MAX_RTT_NS) {
      this.#miss(ping, 'missed', now);
      return 'late';
    }
    this.#endOvertaken(ping, now);
    ping.state = 'answered';
    if (isMeasured) {
      this.#rtt.add(rttNs);
      this.#patience.learn(rttNs / 1e6);
    } else {
      this.#rtt.end(false);
    }
    this.#heard(now);
    this.#report('pong', now, knownRttNs);
    return 'counted';
  }

  /** Gives the verdicts that are due; the caller has read what waited in the socket before. */
  judge(now: Moment): void {
    for (;;) {
      const oldest = this.#pings.oldestOutstanding();
      if (oldest === undefined || oldest.sentAtMs + this.#patience.ms > now.monotonicMs) break;
      this.#miss(oldest, 'missed', now);
    }
    if (this.#value !== 'Error') {
      if (now.monotonicMs >= this.#deadlineMs()) this.#down(now);
    } else if (now.monotonicMs >= this.#nextDownAtMs) {
      const { intervalMs } = this.#settings;
      this.#nextDownAtMs += Math.ceil((now.monotonicMs - this.#nextDownAtMs + 1e-6) / intervalMs) * intervalMs;
      this.#lose();
      this.#report('down', now);
    }
  }

  /**
   * This process stood still: nobody could have heard the peer then, nor did anybody ask it. If that took longer than
   * an interval, it does not count towards the deadline.
   */
  stalled(stall: Stall): void {
    if (durationOf(stall) > NOTABLE_STALL_MS) this.#stall = stall;
    const from = Math.max(stall.from.monotonicMs, this.#heardAtMs);
    const deafMs = stall.to.monotonicMs - from;
    if (deafMs > this.#settings.intervalMs) this.#heardAtMs += deafMs;
  }

  /** The deviations in it are told once. */
  snapshot(): ProbeSnapshot {
    const deadlineDeviationsMs = this.#deadlineDeviationsMs;
    this.#deadlineDeviationsMs = [];
    return {
      interfaceId: this.interfaceId,
      value: this.#value,
      ...this.#reason(),
      ...this.#rtt.read(),
      consecutiveMisses: this.#consecutiveMisses,
      ...(this.#transitionedAtUnixMs === undefined ? {} : { transitionedAtUnixMs: this.#transitionedAtUnixMs }),
      transitions: this.#transitions,
      pingsSent: this.#pingsSent,
      pongsReceived: this.#pongsReceived,
      sendErrors: Object.fromEntries(this.#sendErrors),
      deadlineDeviationsMs,
    };
  }

  #deadlineMs(): number {
    return this.#heardAtMs + this.#windowMs;
  }

  #endOvertaken(answered: SentPing, now: Moment): void {
    for (;;) {
      const oldest = this.#pings.oldestOutstanding();
      if (oldest === undefined || oldest === answered) return;
      this.#miss(oldest, 'overtaken', now);
    }
  }

  #miss(ping: SentPing, state: 'missed' | 'overtaken' | 'refused', now: Moment): void {
    ping.state = state;
    if (!ping.observed) return;
    if (this.#value !== 'Error') this.#lose(); // else each interval counts once, by its `down`
    if (this.#settings.suspectIntervalMs !== undefined && this.#value === 'Connected' && state !== 'overtaken') {
      this.#isSuspect = true;
      this.#cadence.startExtra(now.monotonicMs, this.#settings.suspectIntervalMs);
    }
    this.#report('miss', now);
  }

  #lose(): void {
    this.#rtt.end(true);
    this.#consecutiveMisses += 1;
  }

  #heard(now: Moment): void {
    this.#heardAtMs = now.monotonicMs;
    this.#lastPong = now;
    this.#pongsReceived += 1;
    this.#consecutiveMisses = 0;
    this.#hasLatePongs = false;
    this.#isSuspect = false;
    this.#sendError = undefined;
    this.#cadence.stopExtra();
    this.#nextDownAtMs = Number.POSITIVE_INFINITY;
    this.#become('Connected', now);
  }

  #down(now: Moment): void {
    this.#deadlineDeviationsMs.push(now.monotonicMs - this.#deadlineMs());
    this.#nextDownAtMs = this.#deadlineMs() + this.#settings.intervalMs;
    if (this.#nextDownAtMs <= now.monotonicMs) this.#nextDownAtMs = now.monotonicMs + this.#settings.intervalMs;
    this.#isSuspect = false;
    this.#cadence.startExtra(now.monotonicMs, RECOVERY_INTERVAL_MS);
    this.#become('Error', now);
    this.#report('down', now);
  }

  #become(value: ConnectionValue, now: Moment): void {
    if (this.#value === value) return;
    this.#value = value;
    this.#transitions += 1;
    this.#transitionedAtUnixMs = now.unixMs;
  }

  #report(kind: 'pong' | 'miss' | 'down', now: Moment, rttNs?: number): void {
    this.#sequence += 1;
    const sighting: { -readonly [Field in keyof Sighting]: Sighting[Field] } = {
      interfaceId: this.interfaceId,
      sequence: this.#sequence,
      monotonicMs: Math.round(now.monotonicMs * 1e3) / 1e3,
      kind,
      value: this.#value,
      observedAtUnixMs: now.unixMs,
    };
    if (rttNs !== undefined) {
      sighting.rttNs = rttNs;
      sighting.minRttNs = this.#rtt.minRttNs() ?? rttNs;
    }
    if (this.#consecutiveMisses > 0) sighting.consecutiveMisses = this.#consecutiveMisses;
    this.#voice.emit(Object.assign(sighting, this.#reason()));
    this.#stall = undefined;
  }

  #reason(): TunnelReason | undefined {
    return tunnelReason({
      ...{ value: this.#value, lastPong: this.#lastPong, firstDue: this.#firstDue, sendError: this.#sendError },
      ...{ isSuspect: this.#isSuspect, stall: this.#stall, hasLatePongs: this.#hasLatePongs, windowMs: this.#windowMs },
    });
  }
}

const MAX_RING = 4_096;

/** Every PING of two windows at the densest cadence; beyond the bound the oldest ends as a miss before its time. */
function ringCapacity(settings: ProbeSettings, windowMs: number): number {
  const densestMs = Math.min(settings.intervalMs, RECOVERY_INTERVAL_MS, settings.suspectIntervalMs ?? windowMs);
  return Math.min(MAX_RING, Math.max(32, 2 * Math.ceil(windowMs / densestMs) + 2));
}
