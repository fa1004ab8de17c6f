import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { metricsMarkdown } from '../../shared/cli/metrics-markdown.ts';
import { METRICS, type MetricSpec } from '../../shared/domain/metrics.ts';

const root = join(import.meta.dirname, '../..');

describe('docs/metrics.md', () => {
  it('is what the catalog says (npx vitest run test/cli/metrics.test.ts -u writes it)', async () => {
    await expect(metricsMarkdown()).toMatchFileSnapshot('../../docs/metrics.md');
  });
});

describe('the catalog of metrics', () => {
  it('holds nothing that no code exports', async () => {
    const sources: string[] = [];
    for await (const file of glob(['shared/**/*.ts', 'functions/**/*.ts'], { cwd: root })) {
      if (file !== 'shared/domain/metrics.ts') sources.push(await readFile(join(root, file), 'utf8'));
    }
    const code = sources.join('\n');
    expect(Object.keys(METRICS).filter((name) => !code.includes(`'${name}'`))).toEqual([]);
  });

  it('names metrics as Prometheus wants them: counters end in _total, ours are in base units', () => {
    for (const [name, { type, help }] of Object.entries<MetricSpec>(METRICS)) {
      expect(name.endsWith('_total'), name).toBe(type === 'counter');
      expect(help, name).not.toMatch(/[|.]$|\n/);
      if (name.startsWith('wg_keepalive_')) expect(name).not.toMatch(/_(us|ms|ns|milliseconds|microseconds)(_|$)/);
    }
  });

  it('has no label that a packet could fill', () => {
    const labels = new Set(Object.values<MetricSpec>(METRICS).flatMap(({ labels }) => labels));
    expect([...labels].sort()).toEqual(['cluster_id', 'code', 'driver', 'function', 'interface', 'outcome', 'reason']);
  });
});
