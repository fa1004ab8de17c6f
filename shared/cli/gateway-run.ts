import { randomBytes } from 'node:crypto';
import { engineThread } from '../adapters/engine-thread.ts';
import { readInterfaceBytes } from '../adapters/interface-bytes.ts';
import { connectionNameOf } from '../domain/connection.ts';
import type { PingSettings } from '../domain/ping-settings.ts';
import type { ProbeSnapshot, Sighting } from '../domain/sighting.ts';
import type { GatewayMode, TunnelEndpoint } from '../domain/tunnel-interface.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import type { DatagramSockets } from '../ports/datagram-socket.ts';
import type { EventBus } from '../ports/event-bus.ts';
import type { EngineReport, EngineSnapshot, PingEngine, StartEngine } from '../ports/ping-engine.ts';
import type { Logger, Meter } from '../ports/telemetry.ts';
import { GatewayMeter } from '../runtime/gateway-meter.ts';
import { LogLimiter } from '../runtime/log-limiter.ts';
import { OutboxSender } from '../runtime/outbox-sender.ts';
import { engineEntry } from './engine-entry.ts';
import { engineOn } from './ping-engine.ts';

/**
 * One gateway of a Connection: `startGateway(options, ports)` pings at once, whatever the bus does.
 *
 *     engine (own thread) ─ sightings ─▶ outbox ─ observations ─▶ bus
 */
export type GatewayOptions = {
  readonly namespace: string;
  /** Of the gateway; its Connection is `gw-<name>`. */
  readonly name: string;
  readonly mode: GatewayMode;
  readonly remoteClusterId: string;
  readonly gatewayUid?: string;
  readonly tunnels: readonly TunnelEndpoint[];
  readonly settings: PingSettings;
  readonly suspectIntervalMs?: number;
  /** Unique to this run of the gateway: message ids begin with it. */
  readonly runId: string;
};

export type GatewayPorts = {
  readonly bus: EventBus;
  /** Given: the engine lives in this thread, on them and on `clock`. Left out: in a thread of its own, on real UDP. */
  readonly sockets?: DatagramSockets;
  readonly clock: Clock;
  readonly meter: Meter;
  readonly log: Logger;
};

export type Gateway = {
  /** What is known of each tunnel, in index order. */
  tunnels(): readonly TunnelView[];
  /** Replaces the tunnels: those that stay keep their state. Announces the new set under the same epoch. */
  setTunnels(tunnels: readonly TunnelEndpoint[]): void;
  /** The fencing token of this run; `undefined` until the bus has acknowledged the announcement. */
  epoch(): number | undefined;
  /** What the bus said last to what it did not take; `undefined` while it takes everything. */
  refusal(): string | undefined;
  /** Since the engine's last report, of which there is one in 2 s at least: a thread that hangs tells nothing. */
  silentMs(): number;
  /** Stops pinging at once, then brings what waits to the bus. `unsent`: observations that nobody acknowledged. */
  stop(flushTimeoutMs?: number): Promise<{ readonly unsent: number }>;
  /** Rejects if the engine died of a bug; never resolves. */
  readonly failed: Promise<never>;
};

/** Counts and statistics are up to two seconds old; value, reason, message and the last round trip are current. */
export type TunnelView = ProbeSnapshot;

const FLUSH_TIMEOUT_MS = 8_000;
/** Saves a wake-up of this thread for most observations; changes of value do not wait. */
const THREAD_BATCH_MS = 50;
const LOG_PERIOD_MS = 60_000;
const READ_BYTES_EVERY_MS = 5_000;

export function startGateway(options: GatewayOptions, ports: GatewayPorts): Gateway {
  return new RunningGateway(options, ports);
}

class RunningGateway implements Gateway {
  readonly failed: Promise<never>;
  readonly #ports: GatewayPorts;
  readonly #log: Logger;
  readonly #limiter: LogLimiter;
  readonly #meter: GatewayMeter;
  readonly #sender: OutboxSender;
  readonly #engine: PingEngine;
  readonly #views = new Map<string, ProbeSnapshot>();
  #interfaces: readonly string[];
  #dropped: EngineSnapshot['dropped'] = {};
  #isStopped = false;
  #heardAtMs: number;
  #byteTimer: Timer | undefined;

  constructor(options: GatewayOptions, ports: GatewayPorts) {
    const { namespace, name, mode, remoteClusterId, gatewayUid, tunnels, settings, suspectIntervalMs, runId } = options;
    const { bus, clock } = ports;
    const connection = connectionNameOf(name);
    this.#ports = ports;
    this.#heardAtMs = clock.monotonicMs();
    this.#log = ports.log.child({ connection: `${namespace}/${connection}` });
    this.#limiter = new LogLimiter(this.#log, clock, LOG_PERIOD_MS);
    this.#meter = new GatewayMeter(ports.meter, remoteClusterId);
    this.#interfaces = tunnels.map(({ interfaceId }) => interfaceId);
    const identity = {
      ...{ namespace, connection, gatewayName: name, mode, remoteClusterId },
      ...(gatewayUid === undefined ? {} : { gatewayUid }),
    };
    this.#sender = new OutboxSender(identity, runId, this.#interfaces, {
      ...{ bus, clock },
      onFailure: (code, err) => {
        ports.meter.count('wg_keepalive_publish_failures_total', { code });
        this.#limiter.write('warn', `publish ${code}`, { code, err }, 'the bus does not take observations: will retry');
      },
    });
    const { sockets } = ports;
    const startEngine: StartEngine = sockets ? engineOn({ sockets, clock }) : engineThread(engineEntry());
    this.#engine = startEngine(
      {
        ...{ tunnels, settings, sender: randomBytes(4).toString('hex'), batchMs: sockets ? 0 : THREAD_BATCH_MS },
        ...(suspectIntervalMs === undefined ? {} : { suspectIntervalMs }),
      },
      (report) => this.#onReport(report),
    );
    this.failed = this.#engine.failed;
    if (sockets === undefined) void this.#readBytes();
  }

  tunnels(): readonly TunnelView[] {
    return this.#interfaces.flatMap((interfaceId) => this.#views.get(interfaceId) ?? []);
  }

  epoch(): number | undefined {
    return this.#sender.epoch;
  }

  refusal(): string | undefined {
    return this.#sender.refusal;
  }

  silentMs(): number {
    return this.#ports.clock.monotonicMs() - this.#heardAtMs;
  }

  setTunnels(tunnels: readonly TunnelEndpoint[]): void {
    this.#interfaces = tunnels.map(({ interfaceId }) => interfaceId);
    this.#sender.announce(this.#interfaces);
    this.#engine.setTunnels(tunnels);
  }

  async stop(flushTimeoutMs: number = FLUSH_TIMEOUT_MS): Promise<{ readonly unsent: number }> {
    this.#isStopped = true;
    this.#byteTimer?.cancel();
    await this.#engine.stop();
    const unsent = await this.#sender.close(flushTimeoutMs);
    if (unsent > 0) this.#log.error({ unsent }, 'stopped with observations that the bus did not take');
    return { unsent };
  }

  async #readBytes(): Promise<void> {
    for (const interfaceId of this.#interfaces) {
      const bytes = await readInterfaceBytes(interfaceId);
      if (bytes !== undefined) this.#meter.onBytes(interfaceId, bytes);
    }
    if (this.#isStopped) return;
    this.#byteTimer = this.#ports.clock.after(READ_BYTES_EVERY_MS, () => void this.#readBytes());
  }

  #onReport({ sightings, snapshot }: EngineReport): void {
    this.#heardAtMs = this.#ports.clock.monotonicMs();
    for (const sighting of sightings) this.#onSighting(sighting);
    this.#sender.add(sightings);
    if (snapshot !== undefined) this.#onSnapshot(snapshot);
  }

  #onSighting(sighting: Sighting): void {
    this.#meter.onSighting(sighting);
    const former = this.#views.get(sighting.interfaceId);
    this.#views.set(sighting.interfaceId, viewOf(former, sighting));
    if (former?.value === sighting.value) return;
    const { interfaceId, value, reason, message } = sighting;
    const fields = { interfaceId, from: former?.value, to: value, reason, message };
    this.#limiter.write(value === 'Error' ? 'warn' : 'info', `${interfaceId} ${value}`, fields, 'tunnel changed');
  }

  #onSnapshot(snapshot: EngineSnapshot): void {
    this.#views.clear();
    for (const tunnel of snapshot.tunnels) this.#views.set(tunnel.interfaceId, tunnel);
    this.#meter.onSnapshot(snapshot);
    this.#meter.total('wg_keepalive_outbox_coalesced_total', this.#sender.coalesced);
    this.#meter.total('wg_keepalive_outbox_superseded_total', this.#sender.superseded);
    this.#logDropped(snapshot.dropped);
    const { meter, bus } = this.#ports;
    meter.gauge('wg_keepalive_outbox_depth', {}, this.#sender.depth);
    meter.gauge('wg_keepalive_bus_connected', {}, Number(bus.health().connected));
    for (const [interfaceId, { code, hint }] of Object.entries(snapshot.faults)) {
      this.#limiter.write('warn', `${interfaceId} ${code}`, { interfaceId, code, hint }, 'tunnel has no socket');
    }
  }

  #logDropped(dropped: EngineSnapshot['dropped']): void {
    for (const [reason, total] of Object.entries(dropped)) {
      if (total === this.#dropped[reason]) continue;
      this.#limiter.write('info', `dropped ${reason}`, { reason, total }, 'datagrams came that are of no use');
    }
    this.#dropped = dropped;
  }
}

/** What a sighting changes of what is shown of its tunnel. */
function viewOf(former: ProbeSnapshot | undefined, sighting: Sighting): ProbeSnapshot {
  const { interfaceId, value, reason, message, rttNs, minRttNs, consecutiveMisses = 0 } = sighting;
  const { reason: _reason, message: _message, ...rest }: Partial<ProbeSnapshot> = former ?? {};
  return {
    ...{ ...NOTHING_YET, ...rest, interfaceId, value, consecutiveMisses },
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
    ...(rttNs === undefined ? {} : { lastRttNs: rttNs }),
    ...(minRttNs === undefined ? {} : { minRttNs }),
  };
}

const NOTHING_YET = { transitions: 0, pingsSent: 0, pongsReceived: 0, sendErrors: {}, deadlineDeviationsMs: [] };
