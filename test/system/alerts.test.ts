import { execFile } from 'node:child_process';
import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
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

type Panels = { readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[] };

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

/** As Grafana would ask, with something in place of its variables. */
function expressionsOf({ panels }: Panels): string[] {
  return panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$\w+/g, '.*')),
  );
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
  test('leans on metrics and labels that exist', () => {
    expect(expressionsOf(dashboard() as Panels).flatMap(unknownIn)).toEqual([]);
  });

  test('is the file that the chart holds (node infra/dashboards/generate.ts writes it)', async () => {
    const file = await readFile(join(root, 'infra/dashboards/wg-keepalive.json'), 'utf8');
    expect(file).toBe(`${JSON.stringify(dashboard(), undefined, 2)}\n`);
  });
});

await describeReal("the dashboard, by Grafana's schema", ['go'], () => {
  test('has no field that Grafana does not know, none of another type, and lacks none', async () => {
    const { stdout } = await check(join(root, 'infra/dashboards/wg-keepalive.json'));
    expect(stdout).toBe(`${(dashboard() as Panels).panels.length} panels\n`);
  });

  test('would name a field that Grafana does not know', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-dashboard-'));
    const file = join(folder.path, 'dashboard.json');
    await writeFile(file, JSON.stringify(dashboard()).replace('"unit":', '"unti":'));
    await expect(check(file)).rejects.toMatchObject({ stderr: expect.stringContaining('panels[1].fieldConfig') });
  });

  function check(file: string) {
    const args = ['run', '-C', join(root, 'test/support/grafana-check'), '.', file];
    return run('go', args, { env: { ...process.env, GOWORK: 'off' } });
  }
});

await describeReal('alerts, by promtool', ['promtool'], () => {
  test('are valid, and fire when they should and not otherwise', async () => {
    const promtool = await requireServer('promtool');
    await run(promtool, ['check', 'rules', '--lint-fatal', join(root, 'infra/alerts/wg-keepalive.rules.yaml')]);
    await run(promtool, ['test', 'rules', join(root, 'infra/alerts/wg-keepalive.test.yaml')]);
  });

  test('every query of the dashboard is one', async () => {
    const promtool = await requireServer('promtool');
    await using folder = await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-queries-'));
    const rules = expressionsOf(dashboard() as Panels).map((expr, index) => ({ record: `query_${index}`, expr }));
    const file = join(folder.path, 'queries.json');
    await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] })); // JSON is YAML too
    const { stdout } = await run(promtool, ['check', 'rules', file]);
    expect(stdout).toContain(`SUCCESS: ${rules.length} rules found`);
  });
});
