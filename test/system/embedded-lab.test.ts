import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { glob } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { startEmbeddedLab } from '../../infra/lab/embedded-lab.ts';
import { runScenario } from '../../infra/lab/run-scenario.ts';
import { readScenario } from '../../infra/lab/scenario.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { meanLatency } from '../../shared/domain/aggregate.ts';
import type { ConnectionStatus } from '../../shared/domain/connection.ts';
import { silentLogger } from '../support/silent-logger.ts';

const root = join(import.meta.dirname, '../..');
const scenarios: string[] = [];
for await (const file of glob(join(root, 'infra/lab/scenarios/*.yaml'))) scenarios.push(file);
/** For a machine that does other things besides. */
const GRACE_MS = 15_000;

describe('the embedded lab', () => {
  it('loses no transition to a function that is killed', async () => {
    const scenario = await readScenario(join(root, 'infra/lab/scenarios/one-tunnel-cut.yaml'));
    await using lab = await startEmbeddedLab({ ...scenario, replicas: 2, log: silentLogger });
    const functions = ['tunnel-status', 'connection-aggregate', 'connection-ensure', 'connection-watch'];
    const killing = new AbortController();
    const killer = (async () => {
      for (let turn = 0; !killing.signal.aborted; turn++) {
        await lab.crash(functions[turn % functions.length] as string);
        await systemClock.sleep(300, killing.signal).catch(() => {});
      }
    })();
    const report = await runScenario(lab, scenario, { clock: systemClock, graceMs: GRACE_MS });
    killing.abort();
    await killer;
    expect(report.failures).toEqual([]);
  });
});

describe('npm start', () => {
  const program = join(root, 'shared/cli/main.ts');
  const children = new Set<ReturnType<typeof spawn>>();
  afterAll(() => {
    for (const child of children) child.kill('SIGKILL');
  });

  async function lab(...args: string[]) {
    const child = spawn(process.execPath, [program, 'lab', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    children.add(child);
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    return { stdout, stderr, code };
  }

  // Each in a process of its own: they mostly wait, and the start of one takes no time from another.
  it.concurrent.each(scenarios.toSorted().map((file) => [basename(file, '.yaml'), file]))(
    'goes through the states of scenario %s, with two replicas of every function',
    async (_name, file) => {
      const { stdout, stderr, code } = await lab('--scenario', file, '--replicas', '2', '--json');
      const { expectations } = await readScenario(file);
      expect(stderr).toContain(`all ${expectations.length} expectations were met`);
      expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({ scenario: { ok: true } });
      expect(code).toBe(0);
    },
  );

  it('ends by itself, with one JSON object of both Connections as its last line', async () => {
    const { stdout, stderr, code } = await lab('--duration', '6s', '--json', '--ping-interval', '200ms');
    expect(stderr).toContain('liqo-tunnel3');
    expect(code).toBe(0);
    const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as {
      connections: { namespace: string; name: string; status: ConnectionStatus }[];
    };
    expect(result.connections.map(({ namespace, name }) => [namespace, name])).toEqual([
      ['liqo-tenant-milan', 'gw-milan'],
      ['liqo-tenant-rome', 'gw-rome'],
    ]);
    for (const { status } of result.connections) {
      const tunnels = status.tunnels ?? [];
      expect(status.value).toBe('Connected');
      expect(tunnels.map(({ interfaceID }) => interfaceID)).toEqual([
        ...['liqo-tunnel', 'liqo-tunnel1', 'liqo-tunnel2', 'liqo-tunnel3'],
      ]);
      expect(status.latency).toEqual(meanLatency(tunnels));
    }
  });

  it('does not call a scenario met that ended before its time', async () => {
    const file = join(root, 'infra/lab/scenarios/one-tunnel-cut.yaml');
    const { stdout, stderr, code } = await lab('--scenario', file, '--duration', '2s', '--json');
    expect(stderr).toContain('scenario one-tunnel-cut: ended before its expectations were looked at');
    expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({ scenario: { ok: false } });
    expect(code).toBe(1);
  });

  it.each([
    [['--tunnels', '65'], /--tunnels "65": want/],
    [['--tunnel-count', '2'], /--tunnel-count: lab has no such flag/],
    [['--scenario', 'nowhere.yaml'], /nowhere\.yaml/],
    [['--ui-bind-address', '203.0.113.1:8088'], /--ui-bind-address 203\.0\.113\.1:8088: cannot listen/],
  ])('refuses %j with exit code 2, naming the flag and the value', async (args, message) => {
    const { stderr, stdout, code } = await lab(...args);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('    at ');
    expect(stdout).toBe('');
  });
});
