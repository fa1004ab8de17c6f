import { createPingReceiver, type DropReason } from '../../functions/ping-receiver/worker.ts';
import { createPingSender } from '../../functions/ping-sender/worker.ts';
import { PingCadence } from '../domain/ping-cadence.ts';
import { TunnelWire } from '../domain/ping-wire.ts';
import type { Moment, Sighting } from '../domain/sighting.ts';
import type { Stall } from '../domain/stall.ts';
import type { StampSource } from '../domain/stamp-source.ts';
import type { TunnelEndpoint } from '../domain/tunnel-interface.ts';
import { type ProbeSettings, TunnelProbe } from '../domain/tunnel-probe.ts';
import { UnmonitoredTunnel } from '../domain/unmonitored-tunnel.ts';
import type { Clock } from '../ports/clock.ts';
import type { DatagramSockets } from '../ports/datagram-socket.ts';
import type { EngineOptions } from '../ports/ping-engine.ts';
import { openTunnelLink, type TunnelLink } from '../runtime/tunnel-link.ts';

/** One tunnel of the engine: its state, its socket, its sender and its receiver. */
export type EngineTunnel = {
  readonly endpoint: TunnelEndpoint;
  readonly monitor: TunnelProbe | UnmonitoredTunnel;
  readonly link: TunnelLink;
  /** Sends what is due at `nowMs`. */
  readonly send: (nowMs: number) => void;
};

/** What a tunnel needs of the engine that it lives in. */
export type EngineContext = {
  readonly options: EngineOptions;
  readonly ports: { readonly sockets: DatagramSockets; readonly clock: Clock };
  readonly stamps: StampSource;
  readonly now: () => Moment;
  readonly stall: (moment: Moment) => Stall | undefined;
  readonly onSighting: (sighting: Sighting) => void;
  readonly onAnswered: () => void;
  readonly onDropped: (reason: DropReason) => void;
  readonly onRefused: (interfaceId: string) => void;
};

/** @param lastSequence - of this interface in this run, 0 if it never spoke */
export function createEngineTunnel(
  endpoint: TunnelEndpoint,
  firstDue: Moment,
  lastSequence: number,
  context: EngineContext,
): EngineTunnel {
  const { options, ports, stamps, now, stall, onSighting, onAnswered, onDropped, onRefused } = context;
  const { settings } = options;
  const { interfaceId, peer } = endpoint;
  const wire = new TunnelWire(interfaceId, options.sender);
  const voice = { interfaceId, lastSequence, emit: onSighting };
  const probe = settings.enabled ? new TunnelProbe(voice, probeSettings(options), firstDue) : undefined;
  const monitor = probe ?? new UnmonitoredTunnel(voice, new PingCadence(firstDue.monotonicMs, settings.intervalMs));

  let receive: ReturnType<typeof createPingReceiver> = () => {};
  const link = openTunnelLink(
    endpoint,
    ports,
    (bytes, from) => receive(bytes, from),
    (code) => probe?.failed(code),
  );
  receive = createPingReceiver({
    ...{ probe, wire, link, peerAddress: peer.address, bufferSizeBytes: settings.bufferSizeBytes },
    ...{ now, stall, onAnswered, onDropped },
  });
  const sender =
    probe && createPingSender({ probe, wire, link, stamps, peer, now, onRefused: () => onRefused(interfaceId) });
  return { endpoint, monitor, link, send: (nowMs) => sender?.wake(nowMs) };
}

function probeSettings({ settings: { intervalMs, lossThreshold }, suspectIntervalMs }: EngineOptions): ProbeSettings {
  return { intervalMs, lossThreshold, ...(suspectIntervalMs === undefined ? {} : { suspectIntervalMs }) };
}
