import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { dashboard } from '../../infra/dashboards/dashboard.ts';
import { requireServer } from '../../infra/servers/find.ts';
import { METRICS, type MetricSpec } from '../../shared/domain/metrics.ts';
import { describeReal } from '../support/real-parts.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);

type Rule = {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
};

let rules: readonly Rule[];
beforeAll(async () => {
  const text = await readFile(join(root, 'infra/alerts/wg-keepalive.rules.yaml'), 'utf8');
  const file = parse(text) as { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
  rules = file.groups.flatMap(({ rules: own }) => own);
});

/** Series of an expression that the catalog does not have: a wrong name, or a label that it never has. */
function unknownIn(expression: string): string[] {
  const found = [...expression.matchAll(/\b((?:wg_keepalive|liqo)_\w+?)(?:_bucket)?(?=[{[\s)]|$)(?:\{([^}]*)\})?/g)];
  expect(found.length, expression).toBeGreaterThan(0);
  return found.flatMap(([, name = '', selector = '']) => {
    const spec = (METRICS as Readonly<Record<string, MetricSpec>>)[name];
    if (spec === undefined) return [name];
    // Prometheus itself adds where a series comes from.
    const labels = [...spec.labels, 'namespace', 'pod', 'le'];
    const used = [...selector.matchAll(/(\w+)\s*[=!]~?"/g)].map(([, label = '']) => label);
    return used.filter((label) => !labels.includes(label)).map((label) => `${name}{${label}}`);
  });
}

describe('alerts', () => {
  test('lean on metrics and labels that exist', () => {
    expect(rules.flatMap(({ expr }) => unknownIn(expr))).toEqual([]);
  });

  test('say what is wrong and lead to a chapter of the runbook, and every chapter belongs to one', async () => {
    const runbook = await readFile(join(root, 'docs/runbook.md'), 'utf8');
    const chapters = [...runbook.matchAll(/^## (WgKeepalive\w+)$/gm)].map(([, name]) => name);
    expect(chapters).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, labels, annotations } of rules) {
      expect(annotations.runbook_url).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
      expect(['critical', 'warning']).toContain(labels.severity);
      expect(annotations.summary && annotations.description).toBeTruthy();
    }
  });

  test('have a unit test each', async () => {
    const tests = await readFile(join(root, 'infra/alerts/wg-keepalive.test.yaml'), 'utf8');
    expect(rules.filter(({ alert }) => !tests.includes(`alertname: ${alert}`))).toEqual([]);
  });
});

describe('the dashboard', () => {
  type Panels = { readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[] };

  test('leans on metrics and labels that exist', () => {
    const expressions = (dashboard() as Panels).panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    expect(expressions.flatMap(unknownIn)).toEqual([]);
  });

  test('is the file that the chart holds (node infra/dashboards/generate.ts writes it)', async () => {
    const file = await readFile(join(root, 'infra/dashboards/wg-keepalive.json'), 'utf8');
    expect(file).toBe(`${JSON.stringify(dashboard(), undefined, 2)}\n`);
  });
});

await describeReal('alerts, by promtool', ['promtool'], () => {
  test('are valid, and fire when they should and not otherwise', async () => {
    const promtool = await requireServer('promtool');
    await run(promtool, ['check', 'rules', '--lint-fatal', join(root, 'infra/alerts/wg-keepalive.rules.yaml')]);
    await run(promtool, ['test', 'rules', join(root, 'infra/alerts/wg-keepalive.test.yaml')]);
  });
});
