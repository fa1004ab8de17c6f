import type { MetricName } from '../domain/metrics.ts';
import type { ProbeSnapshot, Sighting } from '../domain/sighting.ts';
import type { EngineSnapshot } from '../ports/ping-engine.ts';
import type { Labels, Meter } from '../ports/telemetry.ts';

const NS_PER_SECOND = 1e9;
const NS_PER_US = 1e3;
const DRIVER = 'wireguard';

const PER_TUNNEL = [
  'wg_keepalive_pings_sent_total',
  'wg_keepalive_pongs_received_total',
  'wg_keepalive_rtt_seconds',
  'wg_keepalive_rtt_last_seconds',
  'wg_keepalive_rtt_min_seconds',
  'wg_keepalive_rtt_mean_seconds',
  'wg_keepalive_rtt_deviation_seconds',
  'wg_keepalive_jitter_seconds',
  'wg_keepalive_loss_ratio',
  'wg_keepalive_consecutive_misses',
  'wg_keepalive_last_transition_timestamp_seconds',
  'wg_keepalive_tunnel_up',
  'wg_keepalive_transitions_total',
] as const satisfies readonly MetricName[];

/** Turns what the engine tells into the metrics of the gateway. Labels come from the configuration only. */
export class GatewayMeter {
  readonly #meter: Meter;
  readonly #peer: Labels;
  /** Last totals of the engine, so that its counts become increments. */
  readonly #totals = new Map<string, number>();
  readonly #sendErrorCodes = new Map<string, Set<string>>();
  #known: ReadonlySet<string> = new Set();

  constructor(meter: Meter, remoteClusterId: string) {
    this.#meter = meter;
    this.#peer = { driver: DRIVER, cluster_id: remoteClusterId };
  }

  onSighting({ interfaceId, kind, rttNs }: Sighting): void {
    if (kind !== 'pong' || rttNs === undefined) return;
    this.#meter.observe('wg_keepalive_rtt_seconds', { interface: interfaceId }, rttNs / NS_PER_SECOND);
    this.#meter.observe('liqo_peer_latency_histogram_us', this.#peer, rttNs / NS_PER_US);
  }

  onSnapshot({ tunnels, dropped, answered, worstLagMs }: EngineSnapshot): void {
    for (const tunnel of tunnels) this.#tunnel(tunnel);
    this.#forgetAllBut(new Set(tunnels.map(({ interfaceId }) => interfaceId)));
    for (const [reason, count] of Object.entries(dropped)) {
      this.#total('wg_keepalive_packets_dropped_total', { reason }, count);
    }
    this.#total('wg_keepalive_pings_answered_total', {}, answered);
    this.#meter.gauge('wg_keepalive_engine_lag_seconds', {}, worstLagMs / 1e3);
    this.#aggregate(tunnels);
  }

  /** What the kernel has counted of one interface since it was made. */
  onBytes(interfaceId: string, { received, transmitted }: { received: number; transmitted: number }): void {
    this.#growth('liqo_peer_receive_bytes_total', interfaceId, received);
    this.#growth('liqo_peer_transmit_bytes_total', interfaceId, transmitted);
  }

  /** Of something that only grows: `count` in all. */
  total(name: MetricName, count: number): void {
    this.#total(name, {}, count);
  }

  #tunnel(tunnel: ProbeSnapshot): void {
    const labels = { interface: tunnel.interfaceId };
    const isUp = tunnel.value === 'Connected';
    this.#total('wg_keepalive_pings_sent_total', labels, tunnel.pingsSent);
    this.#total('wg_keepalive_pongs_received_total', labels, tunnel.pongsReceived);
    this.#total('wg_keepalive_transitions_total', labels, tunnel.transitions);
    for (const [code, count] of Object.entries(tunnel.sendErrors)) {
      this.#total('wg_keepalive_send_errors_total', { ...labels, code }, count);
      const codes = this.#sendErrorCodes.get(tunnel.interfaceId) ?? new Set();
      this.#sendErrorCodes.set(tunnel.interfaceId, codes.add(code));
    }
    this.#meter.gauge('wg_keepalive_tunnel_up', labels, Number(isUp));
    this.#meter.gauge('wg_keepalive_consecutive_misses', labels, tunnel.consecutiveMisses);
    this.#seconds('wg_keepalive_rtt_last_seconds', labels, isUp ? tunnel.lastRttNs : undefined);
    this.#seconds('wg_keepalive_rtt_min_seconds', labels, isUp ? tunnel.minRttNs : undefined);
    this.#seconds('wg_keepalive_rtt_mean_seconds', labels, tunnel.meanRttNs);
    this.#seconds('wg_keepalive_rtt_deviation_seconds', labels, tunnel.deviationRttNs);
    this.#seconds('wg_keepalive_jitter_seconds', labels, tunnel.jitterNs);
    if (tunnel.lossRatio !== undefined) this.#meter.gauge('wg_keepalive_loss_ratio', labels, tunnel.lossRatio);
    const { transitionedAtUnixMs: atUnixMs, deadlineDeviationsMs } = tunnel;
    if (atUnixMs !== undefined) {
      this.#meter.gauge('wg_keepalive_last_transition_timestamp_seconds', labels, atUnixMs / 1e3);
    }
    for (const ms of deadlineDeviationsMs) {
      this.#meter.observe('wg_keepalive_deadline_deviation_seconds', {}, ms / 1e3);
    }
  }

  /** A tunnel that is down has no latency: a missing value is never a healthy zero. */
  #seconds(name: MetricName, labels: Labels, ns: number | undefined): void {
    if (ns === undefined) this.#meter.remove(name, labels);
    else this.#meter.gauge(name, labels, ns / NS_PER_SECOND);
  }

  #aggregate(tunnels: readonly ProbeSnapshot[]): void {
    const isConnected = tunnels.length > 0 && tunnels.every(({ value }) => value === 'Connected');
    this.#meter.gauge('liqo_peer_is_connected', this.#peer, Number(isConnected));
    const rttsNs = isConnected ? tunnels.flatMap(({ lastRttNs }) => lastRttNs ?? []) : [];
    if (rttsNs.length === 0) {
      this.#meter.remove('liqo_peer_latency_us', this.#peer);
    } else {
      const meanNs = rttsNs.reduce((sum, rttNs) => sum + rttNs, 0) / rttsNs.length;
      this.#meter.gauge('liqo_peer_latency_us', this.#peer, meanNs / NS_PER_US);
    }
  }

  #forgetAllBut(interfaces: ReadonlySet<string>): void {
    for (const interfaceId of this.#known.difference(interfaces)) {
      const labels = { interface: interfaceId };
      for (const name of PER_TUNNEL) this.#remove(name, labels);
      for (const code of this.#sendErrorCodes.get(interfaceId) ?? []) {
        this.#remove('wg_keepalive_send_errors_total', { ...labels, code });
      }
      this.#sendErrorCodes.delete(interfaceId);
    }
    this.#known = interfaces;
  }

  /** Interfaces share the peer's series: what one has counted before this run began is not the peer's. */
  #growth(name: MetricName, interfaceId: string, count: number): void {
    const key = `${name} ${interfaceId}`;
    const former = this.#totals.get(key) ?? count;
    this.#totals.set(key, count);
    this.#meter.count(name, this.#peer, count >= former ? count - former : count);
  }

  #remove(name: MetricName, labels: Labels): void {
    this.#meter.remove(name, labels);
    this.#totals.delete(keyOf(name, labels));
  }

  #total(name: MetricName, labels: Labels, count: number): void {
    const key = keyOf(name, labels);
    const former = this.#totals.get(key) ?? 0;
    this.#totals.set(key, count);
    // A count below the last one is that of a tunnel that was taken away and came back.
    this.#meter.count(name, labels, count >= former ? count - former : count);
  }
}

function keyOf(name: MetricName, labels: Labels): string {
  return `${name} ${Object.values(labels).join(' ')}`;
}
