import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { type KubernetesObject, renderChart } from '../support/chart.ts';
import { describeReal } from '../support/real-parts.ts';

const root = join(import.meta.dirname, '../..');
type Rules = {
  readonly groups: readonly { readonly rules: readonly { readonly annotations: { runbook_url: string } }[] }[];
};

function kindOf(objects: readonly KubernetesObject[], kind: string): KubernetesObject | undefined {
  return objects.find((object) => object.kind === kind);
}

await describeReal('alerts and dashboard in the chart', ['helm'], () => {
  test('are those of the files, to the letter', async () => {
    const objects = await renderChart({
      prometheusRules: { enabled: true, labels: { release: 'prometheus' } },
      grafanaDashboard: { enabled: true },
    });
    const rules = kindOf(objects, 'PrometheusRule');
    expect(rules?.metadata.labels).toMatchObject({ release: 'prometheus' });
    expect(rules?.spec).toEqual(parse(await readFile(join(root, 'infra/alerts/wg-keepalive.rules.yaml'), 'utf8')));
    const config = kindOf(objects, 'ConfigMap') as KubernetesObject & { readonly data: Record<string, string> };
    expect(config.metadata.labels).toMatchObject({ grafana_dashboard: '1' });
    const dashboard = await readFile(join(root, 'infra/dashboards/wg-keepalive.json'), 'utf8');
    expect(JSON.parse(config.data['wg-keepalive.json'] as string)).toEqual(JSON.parse(dashboard));
  });

  test('lead to the runbook where one keeps it', async () => {
    const values = { prometheusRules: { enabled: true, runbookBaseUrl: 'https://wiki.example/keepalive/' } };
    const rendered = kindOf(await renderChart(values), 'PrometheusRule') as { readonly spec: unknown };
    const { groups } = rendered.spec as Rules;
    for (const { annotations } of groups.flatMap(({ rules }) => rules)) {
      expect(annotations.runbook_url).toMatch(/^https:\/\/wiki\.example\/keepalive\/docs\/runbook\.md#wgkeepalive/);
    }
    await expect(renderChart({ prometheusRules: { runbookBaseUrl: 'wiki' } })).rejects.toThrow('runbookBaseUrl');
  });

  test('are not there unless somebody wants them', async () => {
    const objects = await renderChart();
    expect(kindOf(objects, 'PrometheusRule')).toBeUndefined();
    expect(kindOf(objects, 'ConfigMap')).toBeUndefined();
  });
});
