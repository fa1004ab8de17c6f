import { METRICS, type MetricName } from '../../shared/domain/metrics.ts';

/** The Grafana dashboard as code: every query is made of names that the catalog of metrics has. */

type Panel = {
  readonly title: string;
  readonly description: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  readonly kind?: 'timeseries' | 'stat' | 'state-timeline';
  readonly width?: 6 | 8 | 12 | 24;
  /** What the numbers of a gauge of 0 and 1 mean. */
  readonly words?: Readonly<Record<string, { readonly text: string; readonly color: string }>>;
  readonly max?: number;
};
type Query = { readonly expression: string; readonly legend: string };
type Row = { readonly title: string; readonly panels: readonly Panel[] };

const GATEWAY = 'namespace=~"$namespace", pod=~"$gateway"';
const HEIGHT = 8;
const COLUMNS = 24;
const TIMESERIES_OPTIONS = {
  legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
  tooltip: { mode: 'multi', sort: 'desc' },
};
const UP_AND_DOWN = { 0: { text: 'down', color: 'red' }, 1: { text: 'up', color: 'green' } };

/** A series of the catalog, of the gateways that are chosen above. */
function of(name: MetricName, selector = ''): string {
  return `${name}{${[isOfGateway(name) ? GATEWAY : '', selector].filter(Boolean).join(', ')}}`;
}

function bucket(name: MetricName, selector = ''): string {
  return of(name, selector).replace(name, `${name}_bucket`);
}

function isOfGateway(name: MetricName): boolean {
  const by: readonly string[] = METRICS[name].by;
  return by.includes('gateway');
}

function perSecond(series: string, by: string): string {
  return `sum by (${by}) (rate(${series}[$__rate_interval]))`;
}

function quantile(share: number, name: MetricName, by: string): string {
  return `histogram_quantile(${share}, sum by (${by}, le) (rate(${bucket(name)}[$__rate_interval])))`;
}

const TUNNEL = '{{pod}} {{interface}}';

const ROWS: readonly Row[] = [
  {
    title: 'Tunnels',
    panels: [
      {
        ...{ title: 'Tunnels up', kind: 'state-timeline', unit: 'none', width: 24, words: UP_AND_DOWN },
        description: 'As the gateways see them; the status of the Connections follows.',
        queries: [{ expression: of('wg_keepalive_tunnel_up'), legend: TUNNEL }],
      },
      {
        ...{ title: 'Round trip', unit: 's', width: 12 },
        description: 'Half of the round trips are shorter than p50, 1 in 100 is longer than p99.',
        queries: [
          { expression: quantile(0.5, 'wg_keepalive_rtt_seconds', 'pod, interface'), legend: `${TUNNEL} p50` },
          { expression: quantile(0.99, 'wg_keepalive_rtt_seconds', 'pod, interface'), legend: `${TUNNEL} p99` },
        ],
      },
      {
        ...{ title: 'Loss', unit: 'percentunit', width: 12, max: 1 },
        description: 'Share of the last 100 PINGs that went without a PONG.',
        queries: [{ expression: of('wg_keepalive_loss_ratio'), legend: TUNNEL }],
      },
      {
        ...{ title: 'Jitter and least round trip', unit: 's', width: 12 },
        description: 'The least of the last 8 round trips is the path; what is above it is waiting.',
        queries: [
          { expression: of('wg_keepalive_jitter_seconds'), legend: `${TUNNEL} jitter` },
          { expression: of('wg_keepalive_rtt_min_seconds'), legend: `${TUNNEL} least` },
        ],
      },
      {
        ...{ title: 'Changes of value', unit: 'short', width: 12 },
        description: 'In a quarter of an hour: more than a few is flapping.',
        queries: [{ expression: `increase(${of('wg_keepalive_transitions_total')}[15m])`, legend: TUNNEL }],
      },
    ],
  },
  {
    title: 'Gateways',
    panels: [
      {
        ...{ title: 'NATS', kind: 'state-timeline', unit: 'none', width: 12, words: UP_AND_DOWN },
        description: 'Whether each gateway reaches NATS. Without it, it goes on pinging and keeps what it sees.',
        queries: [{ expression: of('wg_keepalive_bus_connected'), legend: '{{pod}}' }],
      },
      {
        ...{ title: 'Outbox', unit: 'short', width: 12 },
        description: 'Observations that wait for NATS.',
        queries: [{ expression: of('wg_keepalive_outbox_depth'), legend: '{{pod}}' }],
      },
      {
        ...{ title: 'PINGs refused and datagrams dropped', unit: 'cps', width: 12 },
        description: 'By the code of the kernel, and by the reason of the drop.',
        queries: [
          {
            expression: perSecond(of('wg_keepalive_send_errors_total'), 'pod, interface, code'),
            legend: `${TUNNEL} {{code}}`,
          },
          {
            expression: perSecond(of('wg_keepalive_packets_dropped_total'), 'pod, reason'),
            legend: '{{pod}} {{reason}}',
          },
        ],
      },
      {
        ...{ title: 'Lag', unit: 's', width: 12 },
        description:
          'How late the timer of the tunnels and the event loop come at worst: what a round trip may be wrong by.',
        queries: [
          { expression: of('wg_keepalive_engine_lag_seconds'), legend: '{{pod}} timer' },
          { expression: of('wg_keepalive_event_loop_lag_seconds'), legend: '{{pod}} event loop' },
        ],
      },
    ],
  },
  {
    title: 'Functions',
    panels: [
      {
        ...{ title: 'Events by outcome', unit: 'cps', width: 12 },
        description: 'Most observations are throttled: they need no write.',
        queries: [
          {
            expression: perSecond(of('wg_keepalive_events_total'), 'function, outcome'),
            legend: '{{function}} {{outcome}}',
          },
        ],
      },
      {
        ...{ title: 'Age of events', unit: 's', width: 12 },
        description: 'When a function has handled them: what the Connections show is that old.',
        queries: [
          { expression: quantile(0.5, 'wg_keepalive_event_age_seconds', 'function'), legend: '{{function}} p50' },
          { expression: quantile(0.99, 'wg_keepalive_event_age_seconds', 'function'), legend: '{{function}} p99' },
        ],
      },
      {
        ...{ title: 'Writes to the Kubernetes API', unit: 'cps', width: 12 },
        description: '409: another writer was first, it is tried again. 0: no answer.',
        queries: [
          {
            expression: perSecond(of('wg_keepalive_api_writes_total'), 'function, code'),
            legend: '{{function}} {{code}}',
          },
        ],
      },
      {
        ...{ title: 'CRD of Connection', kind: 'stat', unit: 'none', width: 6 },
        words: { 0: { text: 'another one: run setup', color: 'red' }, 1: { text: 'ready', color: 'green' } },
        description: 'Whether the API server serves it as the functions write it.',
        queries: [{ expression: `min(${of('wg_keepalive_crd_ready')})`, legend: '' }],
      },
      {
        ...{ title: 'Dead letters', kind: 'stat', unit: 'short', width: 6 },
        description: 'Events that no function could take, in a day.',
        queries: [
          { expression: `sum(increase(${of('wg_keepalive_events_total', 'outcome="invalid"')}[1d]))`, legend: '' },
        ],
      },
    ],
  },
];

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana fills it in
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;

/** What Grafana imports. The same code gives the same bytes. */
export function dashboard(): object {
  return {
    ...{ uid: 'wg-keepalive', title: 'wg-keepalive', tags: ['wg-keepalive', 'liqo'], schemaVersion: 39, version: 1 },
    ...{ editable: true, graphTooltip: 1, refresh: '30s', time: { from: 'now-1h', to: 'now' }, timezone: 'browser' },
    templating: { list: variables() },
    annotations: { list: [] },
    panels: panels(),
  };
}

function variables(): readonly object[] {
  const choice = (name: string, label: string, query: string) => ({
    ...{ name, label, type: 'query', datasource: DATASOURCE, query, refresh: 2, sort: 1 },
    ...{ includeAll: true, multi: true, allValue: '.*', current: { text: 'All', value: '$__all' } },
  });
  return [
    { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
    choice('namespace', 'Namespace', 'label_values(wg_keepalive_tunnel_up, namespace)'),
    choice('gateway', 'Gateway', 'label_values(wg_keepalive_tunnel_up{namespace=~"$namespace"}, pod)'),
  ];
}

function panels(): readonly object[] {
  const made: object[] = [];
  let y = 0;
  for (const { title, panels: own } of ROWS) {
    made.push({
      id: made.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
      panels: [],
    });
    y += 1;
    let x = 0;
    for (const one of own) {
      const { width = 12 } = one;
      if (x + width > COLUMNS) {
        x = 0;
        y += HEIGHT;
      }
      made.push({ id: made.length + 1, ...panel(one), gridPos: { x, y, w: width, h: HEIGHT } });
      x += width;
    }
    y += HEIGHT;
  }
  return made;
}

function panel({ title, description, unit, queries, kind = 'timeseries', words, max }: Panel): object {
  const mappings = words === undefined ? [] : [{ type: 'value', options: words }];
  return {
    ...{ type: kind, title, description, datasource: DATASOURCE },
    targets: queries.map(({ expression, legend }, index) => ({
      ...{ refId: String.fromCharCode(65 + index), datasource: DATASOURCE, expr: expression, legendFormat: legend },
    })),
    fieldConfig: { defaults: { unit, mappings, ...(max !== undefined && { min: 0, max }) }, overrides: [] },
    ...(kind === 'timeseries' && { options: TIMESERIES_OPTIONS }),
  };
}
