import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RealLabOptions } from '../../infra/lab/real-lab.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import type { Difference } from '../../shared/domain/replay-difference.ts';
import { labOfSuite, REAL_LAB_NEEDS, reaches } from '../support/real-lab.ts';
import { describeReal } from '../support/real-parts.ts';
import { type Workspace, workspace } from '../support/recorded-world.ts';

const MAIN = join(import.meta.dirname, '../../shared/cli/main.ts');
/** Other settings than the defaults: a replay has to find them by itself. */
const FUNCTIONS = { updateStatusIntervalMs: 2_000, gatewaySilentAfterMs: 30_000 };
const OPTIONS: Omit<RealLabOptions, 'log'> = {
  ...{ tunnels: 3, replicas: 2, functions: FUNCTIONS },
  ping: { ...DEFAULT_PING_SETTINGS, intervalMs: 500, lossThreshold: 3, updateStatusIntervalMs: 2_000 },
};

await describeReal('replay of the real lab', REAL_LAB_NEEDS, () => {
  const current = labOfSuite(async () => OPTIONS);
  let space: Workspace;
  beforeAll(async () => {
    space = await workspace();
    const { lab } = current;
    await reaches(lab, 'Connected', ['Connected', 'Connected', 'Connected']);
    await lab.cut('liqo-tunnel1');
    await reaches(lab, 'Error', ['Connected', 'Error', 'Connected']);
    await lab.restore('liqo-tunnel1');
    await reaches(lab, 'Connected', ['Connected', 'Connected', 'Connected']);
  });
  afterAll(() => space[Symbol.asyncDispose]());

  async function wgKeepalive(...args: string[]) {
    const { nats, api } = current.lab;
    const child = spawn(process.execPath, [MAIN, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH, KUBECONFIG: api.kubeconfig, WG_KEEPALIVE_NATS_URL: nats.urls.join(',') },
    });
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    return { out, err, code: code as number };
  }

  async function diff(...args: string[]) {
    const { out, err, code } = await wgKeepalive('replay', '--diff', '--json', ...args);
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const differences = lines.slice(0, -1) as Difference[];
    return { code, err, end: lines.at(-1), unexplained: differences.filter(({ cause }) => cause === 'unexplained') };
  }

  it('leaves no difference unexplained: the functions told how they were set', async () => {
    const { err, end, unexplained } = await diff();
    expect(unexplained).toEqual([]);
    expect(err).toContain('judged by ping-update-status-interval 2s (as recorded)');
    expect(end.judgedBy).toEqual({ updateStatusIntervalMs: 2_000 });
    expect(end.differences['other-settings']).toBeUndefined();
    expect(end.decisionsThatAgree).toBeGreaterThan(15);
  });

  it('names another setting that is stated as the cause of what it changes', async () => {
    const { code, err, end, unexplained } = await diff('--set', 'ping-update-status-interval=10s');
    expect(unexplained).toEqual([]);
    expect(err).toContain('judged by ping-update-status-interval 10s (by --set)');
    expect(end.differences['other-settings']).toBeGreaterThan(5);
    expect(code).toBe(1);
  });

  it('says the same of an exported file', async () => {
    const exported = await wgKeepalive('export', '--output', space.path('lab'));
    expect(exported.err).toBe('');
    expect(exported.code).toBe(0);
    const { err, end, unexplained } = await diff('--file', space.path('lab'));
    expect(unexplained).toEqual([]);
    expect(err).toContain('judged by ping-update-status-interval 2s (as recorded)');
    expect(end.judgedBy).toEqual({ updateStatusIntervalMs: 2_000 });
  });
});
