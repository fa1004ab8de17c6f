import type { CaptureSide } from './capture-side.ts';
import type { CloudEvent } from './cloud-event.ts';
import type { ConnectionRef } from './connection.ts';
import { OBSERVATION_TYPE, type Observation, type TunnelEvent } from './observation.ts';
import { decodePingMessage, type PingMessage } from './ping-wire.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { VerdictSettings } from './rejudge.ts';
import { betweenMs, compareNanos, formatRfc3339Ms, type UnixNanos, unixMsOf } from './rfc3339-nanos.ts';
import type { Moment, Sighting } from './sighting.ts';
import { interfaceIdOf } from './tunnel-interface.ts';
import { TunnelProbe } from './tunnel-probe.ts';
import type { UdpPacket } from './udp-packet.ts';

export type CaptureVerdictOptions = {
  readonly connection: ConnectionRef;
  readonly sides: readonly CaptureSide[];
  readonly settings: VerdictSettings;
  readonly pingPort: number;
};

export type CaptureCounts = {
  pings: number;
  pongs: number;
  /** PINGs of the peer: they say nothing about this side's verdicts. */
  peerPings: number;
  /** PONGs that were not asked for, came twice or too late. */
  unusedPongs: number;
  malformed: number;
  cut: number;
};

/** The uid of the Connection that a capture stands for. */
export const CAPTURE_UID = 'capture';

type Run = { readonly epoch: number; readonly began: UnixNanos };
type Tunnel = {
  readonly interfaceId: string;
  readonly run: Run;
  readonly probe: TunnelProbe;
  nextRegularMs: number;
  /** Stamps of a sender grow: what does not is a copy, as a capture on all interfaces sees them. */
  lastStamp?: UnixNanos;
};

/**
 * Judges captured PINGs and PONGs as the gateway did that sent the PINGs: the same {@link TunnelProbe}, driven by the
 * times of the packets. What was never on the wire is not in it: PINGs that the kernel refused, pauses of the process.
 */
export class CaptureVerdicts {
  readonly counts: CaptureCounts = { pings: 0, pongs: 0, peerPings: 0, unusedPongs: 0, malformed: 0, cut: 0 };
  readonly #options: CaptureVerdictOptions;
  readonly #locals = new Map<string, number>();
  readonly #runs = new Map<string, Run>();
  /** By local and peer address. */
  readonly #tunnels = new Map<string, Tunnel>();
  #out: RecordedMessage[] = [];
  #sequence = 0;
  #lastUnixMs = 0;

  constructor(options: CaptureVerdictOptions) {
    this.#options = options;
    options.sides.forEach(({ local, peer }, index) => {
      this.#locals.set(`${local}>${peer}`, index);
    });
  }

  /** Packets in the order of their times. @returns what the gateway would have said by then */
  take(packet: UdpPacket, at: UnixNanos): readonly RecordedMessage[] {
    const { source, destination, payload, isCut } = packet;
    const { pingPort } = this.#options;
    if (source.port === pingPort || destination.port === pingPort) {
      const message = decodePingMessage(payload);
      if (message !== undefined) this.#message(message, source.address, destination.address, at);
      else this.counts[isCut ? 'cut' : 'malformed'] += 1;
    }
    return this.#told();
  }

  /** @param at - time of the last packet */
  finish(at: UnixNanos): readonly RecordedMessage[] {
    this.#judgeUntil(at);
    return this.#told();
  }

  #told(): readonly RecordedMessage[] {
    const out = this.#out;
    if (out.length > 0) this.#out = [];
    return out;
  }

  #message(message: PingMessage, from: string, to: string, at: UnixNanos): void {
    this.#judgeUntil(at);
    const isPing = message.msgType === 'PING';
    const key = isPing ? `${from}>${to}` : `${to}>${from}`;
    const index = this.#locals.get(key);
    if (index === undefined) {
      if (isPing) this.counts.peerPings += 1;
      return;
    }
    if (isPing) this.#ping(key, index, message, at);
    else this.#pong(this.#tunnels.get(key), message, at);
  }

  #ping(key: string, index: number, { clusterId, timeStamp }: PingMessage, at: UnixNanos): void {
    const [name = '', sender] = clusterId.split('#');
    const run = this.#runOf(sender ?? '', at);
    let tunnel = this.#tunnels.get(key);
    if (tunnel === undefined || tunnel.run !== run) {
      // Only our own PINGs name their interface; others name a cluster, the same on every tunnel.
      tunnel = this.#begin(sender === undefined ? interfaceIdOf(index) : name, run, at);
      this.#tunnels.set(key, tunnel);
    }
    if (tunnel.lastStamp !== undefined && compareNanos(timeStamp, tunnel.lastStamp) <= 0) return;
    tunnel.lastStamp = timeStamp;
    this.counts.pings += 1;
    const { intervalMs } = this.#options.settings;
    const now = momentOf(run, at);
    const isRegular = now.monotonicMs >= tunnel.nextRegularMs - intervalMs / 4;
    while (isRegular && tunnel.nextRegularMs <= now.monotonicMs + intervalMs / 4) tunnel.nextRegularMs += intervalMs;
    tunnel.probe.sent(timeStamp, now, isRegular ? 'regular' : 'extra');
    tunnel.probe.accepted();
  }

  #pong(tunnel: Tunnel | undefined, { timeStamp }: PingMessage, at: UnixNanos): void {
    const result = tunnel?.probe.pong(timeStamp, momentOf(tunnel.run, at));
    this.counts[result === 'counted' ? 'pongs' : 'unusedPongs'] += 1;
  }

  /** A new sender is a new run of the gateway; its epoch only has to grow. */
  #runOf(sender: string, at: UnixNanos): Run {
    let run = this.#runs.get(sender);
    if (run === undefined) {
      run = { epoch: Math.max(1, Math.floor(unixMsOf(at))) + this.#runs.size, began: at };
      this.#runs.set(sender, run);
    }
    return run;
  }

  #begin(interfaceId: string, run: Run, at: UnixNanos): Tunnel {
    const now = momentOf(run, at);
    this.#tell(`listed.${interfaceId}.${run.epoch}`, unixMsOf(at), {
      ...this.#names(interfaceId),
      kind: 'listed',
      connectionUid: CAPTURE_UID,
      gatewayEpoch: run.epoch,
      observedAt: formatRfc3339Ms(now.unixMs),
    });
    const emit = (sighting: Sighting) => this.#sighted(run, sighting);
    const probe = new TunnelProbe({ interfaceId, lastSequence: 0, emit }, this.#options.settings, now);
    return { interfaceId, run, probe, nextRegularMs: now.monotonicMs };
  }

  #sighted({ epoch }: Run, { observedAtUnixMs, ...sighting }: Sighting): void {
    const observedAt = formatRfc3339Ms(observedAtUnixMs);
    const data: Observation = { ...this.#names(sighting.interfaceId), ...sighting, gatewayEpoch: epoch, observedAt };
    this.#tell(`capture-${epoch}.${data.interfaceId}.${data.sequence}`, observedAtUnixMs, data);
  }

  #names(interfaceId: string) {
    const { connection } = this.#options;
    return { namespace: connection.namespace, connection: connection.name, interfaceId };
  }

  /** Verdicts fall due between packets, in the order of their times. */
  #judgeUntil(at: UnixNanos): void {
    for (;;) {
      let next: { readonly tunnel: Tunnel; readonly unixMs: number } | undefined;
      for (const tunnel of this.#tunnels.values()) {
        const judgeAtMs = tunnel.probe.judgeAtMs();
        if (judgeAtMs > momentOf(tunnel.run, at).monotonicMs) continue;
        const unixMs = unixMsOf(tunnel.run.began) + judgeAtMs;
        if (next === undefined || unixMs < next.unixMs) next = { tunnel, unixMs };
      }
      if (next === undefined) return;
      next.tunnel.probe.judge({ monotonicMs: next.tunnel.probe.judgeAtMs(), unixMs: Math.floor(next.unixMs) });
    }
  }

  #tell(id: string, unixMs: number, data: TunnelEvent): void {
    this.#sequence += 1;
    // The order of packets is that of the file; a clock that was set back while it was written does not change it.
    this.#lastUnixMs = Math.max(this.#lastUnixMs, Math.floor(unixMs));
    const event: CloudEvent = { id, source: '/capture', type: OBSERVATION_TYPE, time: data.observedAt, data };
    this.#out.push({ stream: 'OBSERVATIONS', sequence: this.#sequence, storedAtUnixMs: this.#lastUnixMs, event });
  }
}

function momentOf(run: Run, at: UnixNanos): Moment {
  return { monotonicMs: Math.max(0, betweenMs(run.began, at)), unixMs: Math.floor(unixMsOf(at)) };
}
