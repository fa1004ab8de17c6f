import { METRICS, type MetricSpec } from '../domain/metrics.ts';

/** The table of all metrics, for `docs/metrics.md`. */
export function metricsMarkdown(): string {
  const rows = Object.entries<MetricSpec>(METRICS).map(([name, { type, help, by, once, labels }]) => {
    const what = once === undefined ? help : `${help}. Once ${once}`;
    return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${by.join(', ')} | ${what} |`;
  });
  return `# Metrics

At \`/metrics\` of every process, in the Prometheus text format. Written by \`npx vitest run test/cli/metrics.test.ts -u\` from
\`shared/domain/metrics.ts\`: what is not here, no process exports.

- Labels come from the configuration, never from a packet: nobody on the network can make a series.
- The series of a tunnel go with the tunnel. One that is down exports \`wg_keepalive_tunnel_up\` 0 and no round trip: what is
  not measured is no healthy zero.
- \`liqo_peer_*\` are the names and units (microseconds) of Liqo's own keepalive, one series a peer; the others are in base units.
- Alerts on them: \`infra/alerts/wg-keepalive.rules.yaml\`, each with its chapter in [runbook.md](runbook.md). A dashboard for
  Grafana: \`infra/dashboards/wg-keepalive.json\`.

| metric | type | labels | by | what |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
}
