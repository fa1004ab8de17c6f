/** Every metric that any process exports: the one list that code, docs, alerts and dashboards are held against. */

/** A process: that of a gateway, or one of functions. */
export type MetricSource = 'gateway' | 'function';

export type MetricSpec = {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly by: readonly MetricSource[];
  /** What must have happened for there to be a series; left out: it is always there. */
  readonly once?: string;
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
};

const RTT_BUCKETS_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const AGE_BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const SHOWN_AGE_BUCKETS_SECONDS = [1, 2.5, 5, 10, 12.5, 15, 20, 30, 60, 120, 300, 600];

export const METRICS = {
  liqo_peer_latency_us: {
    type: 'gauge',
    help: 'Latency of the peer in microseconds, mean of its connected tunnels',
    by: ['gateway'],
    once: 'every tunnel is connected',
    labels: ['driver', 'cluster_id'],
  },
  liqo_peer_latency_histogram_us: {
    type: 'histogram',
    help: 'Round trips to the peer in microseconds',
    by: ['gateway'],
    once: 'a PONG came',
    labels: ['driver', 'cluster_id'],
    buckets: RTT_BUCKETS_SECONDS.map((seconds) => Math.round(seconds * 1e6)),
  },
  liqo_peer_is_connected: {
    type: 'gauge',
    help: '1 while every tunnel of the peer is connected',
    by: ['gateway'],
    labels: ['driver', 'cluster_id'],
  },
  liqo_peer_receive_bytes_total: {
    type: 'counter',
    help: 'Bytes received from the peer, where the interfaces give them',
    by: ['gateway'],
    once: 'an interface gave its counts',
    labels: ['driver', 'cluster_id'],
  },
  liqo_peer_transmit_bytes_total: {
    type: 'counter',
    help: 'Bytes sent to the peer, where the interfaces give them',
    by: ['gateway'],
    once: 'an interface gave its counts',
    labels: ['driver', 'cluster_id'],
  },
  wg_keepalive_pings_sent_total: {
    type: 'counter',
    help: 'PINGs handed to the kernel',
    by: ['gateway'],
    labels: ['interface'],
  },
  wg_keepalive_pongs_received_total: { type: 'counter', help: 'Valid PONGs', by: ['gateway'], labels: ['interface'] },
  wg_keepalive_rtt_seconds: {
    type: 'histogram',
    help: 'Round trips of valid PONGs',
    by: ['gateway'],
    once: 'a PONG came',
    labels: ['interface'],
    buckets: RTT_BUCKETS_SECONDS,
  },
  wg_keepalive_rtt_last_seconds: {
    type: 'gauge',
    help: 'Last round trip of a connected tunnel',
    by: ['gateway'],
    once: 'a PONG came, while the tunnel is connected',
    labels: ['interface'],
  },
  wg_keepalive_rtt_min_seconds: {
    type: 'gauge',
    help: 'Least of the last 8 round trips',
    by: ['gateway'],
    once: 'a PONG came, while the tunnel is connected',
    labels: ['interface'],
  },
  wg_keepalive_rtt_mean_seconds: {
    type: 'gauge',
    help: 'Mean of the last 100 round trips',
    by: ['gateway'],
    once: 'a PONG came',
    labels: ['interface'],
  },
  wg_keepalive_rtt_deviation_seconds: {
    type: 'gauge',
    help: 'Standard deviation of the last 100 round trips',
    by: ['gateway'],
    once: 'two PONGs came',
    labels: ['interface'],
  },
  wg_keepalive_jitter_seconds: {
    type: 'gauge',
    help: 'Smoothed difference between consecutive round trips, as in RFC 3550',
    by: ['gateway'],
    once: 'two PONGs came',
    labels: ['interface'],
  },
  wg_keepalive_loss_ratio: {
    type: 'gauge',
    help: 'Share of the last 100 PINGs that were lost',
    by: ['gateway'],
    once: 'a PING ended',
    labels: ['interface'],
  },
  wg_keepalive_consecutive_misses: {
    type: 'gauge',
    help: 'PINGs in a row that went unanswered',
    by: ['gateway'],
    labels: ['interface'],
  },
  wg_keepalive_last_transition_timestamp_seconds: {
    type: 'gauge',
    help: "Unix time of the last change of the tunnel's value",
    by: ['gateway'],
    once: "the tunnel's value changed",
    labels: ['interface'],
  },
  wg_keepalive_tunnel_up: {
    type: 'gauge',
    help: '1 while the tunnel is Connected',
    by: ['gateway'],
    labels: ['interface'],
  },
  wg_keepalive_transitions_total: {
    type: 'counter',
    help: "Changes of the tunnel's value at the gateway",
    by: ['gateway'],
    labels: ['interface'],
  },
  wg_keepalive_send_errors_total: {
    type: 'counter',
    help: 'PINGs that the kernel refused, by error code',
    by: ['gateway'],
    once: 'a PING was refused',
    labels: ['interface', 'code'],
  },
  wg_keepalive_packets_dropped_total: {
    type: 'counter',
    help: 'Datagrams received and not used, by reason',
    by: ['gateway'],
    once: 'a datagram was dropped',
    labels: ['reason'],
  },
  wg_keepalive_pings_answered_total: {
    type: 'counter',
    help: 'PINGs of the peer that were answered',
    by: ['gateway'],
    labels: [],
  },
  wg_keepalive_engine_lag_seconds: {
    type: 'gauge',
    help: 'How late the shared timer of the tunnels came at worst in the last one to two seconds',
    by: ['gateway'],
    labels: [],
  },
  wg_keepalive_deadline_deviation_seconds: {
    type: 'histogram',
    help: 'How long after its deadline a tunnel was judged to be down',
    by: ['gateway'],
    once: 'a tunnel went down',
    labels: [],
    buckets: AGE_BUCKETS_SECONDS,
  },
  wg_keepalive_outbox_coalesced_total: {
    type: 'counter',
    help: 'Unchanged observations that another one stands for, as the outbox was full',
    by: ['gateway'],
    labels: [],
  },
  wg_keepalive_outbox_superseded_total: {
    type: 'counter',
    help: 'Changes of value that a later one stands for, as the outbox was full of changes',
    by: ['gateway'],
    labels: [],
  },
  wg_keepalive_publish_failures_total: {
    type: 'counter',
    help: 'Publishes that the bus did not take and that were repeated, by reason',
    by: ['gateway'],
    once: 'a publish failed',
    labels: ['code'],
  },
  wg_keepalive_outbox_depth: { type: 'gauge', help: 'Observations that wait for the bus', by: ['gateway'], labels: [] },
  wg_keepalive_bus_connected: {
    type: 'gauge',
    help: '1 while the bus is connected',
    by: ['gateway', 'function'],
    labels: [],
  },
  wg_keepalive_event_loop_lag_seconds: {
    type: 'gauge',
    help: 'Lag of the event loop',
    by: ['gateway', 'function'],
    labels: [],
  },
  wg_keepalive_crd_ready: {
    type: 'gauge',
    help: '1 while the API server serves the CRD of Connection as the functions write it, 0 while it serves another or none',
    by: ['function'],
    once: 'the API server answered',
    labels: [],
  },
  wg_keepalive_events_total: {
    type: 'counter',
    help: 'Events handled, by outcome',
    by: ['function'],
    once: 'an event was handled',
    labels: ['function', 'outcome'],
  },
  wg_keepalive_superseded_transitions_total: {
    type: 'counter',
    help: "Changes of a tunnel's value that were never shown, as the API refused until another one came",
    by: ['function'],
    once: 'such a change was given up',
    labels: ['function'],
  },
  wg_keepalive_shown_age_seconds: {
    type: 'histogram',
    help: 'Age of what is shown of a tunnel, by its gateway, when something newer was to replace it',
    by: ['function'],
    once: 'something shown was replaced',
    labels: ['function'],
    buckets: SHOWN_AGE_BUCKETS_SECONDS,
  },
  wg_keepalive_decisions_lost_total: {
    type: 'counter',
    help: 'Decisions that the bus does not take, by reason',
    by: ['function'],
    once: 'a decision was lost',
    labels: ['function', 'code'],
  },
  wg_keepalive_api_writes_total: {
    type: 'counter',
    help: 'Writes to the Kubernetes API, by HTTP status code (0: no answer)',
    by: ['function'],
    once: 'a write was tried',
    labels: ['function', 'code'],
  },
  wg_keepalive_event_age_seconds: {
    type: 'histogram',
    help: 'Age of an event when it was handled',
    by: ['function'],
    once: 'an event was handled',
    labels: ['function'],
    buckets: AGE_BUCKETS_SECONDS,
  },
} as const satisfies Record<string, MetricSpec>;

export type MetricName = keyof typeof METRICS;
