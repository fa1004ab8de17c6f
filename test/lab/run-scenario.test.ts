import { describe, expect, test } from 'vitest';
import { LAB_GATEWAYS, type Lab } from '../../infra/lab/lab.ts';
import { runScenario } from '../../infra/lab/run-scenario.ts';
import { parseScenario, type Scenario } from '../../infra/lab/scenario.ts';
import type { Connection, ConnectionStatus } from '../../shared/domain/connection.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const latency = { value: '1ms', timestamp: '2026-01-01T00:00:00Z' };
const connected: ConnectionStatus = {
  value: 'Connected',
  latency,
  tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Connected', latency }],
};
const failed: ConnectionStatus = {
  value: 'Error',
  tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Error', reason: 'Timeout' }],
};

const cutAndRestore = parseScenario(
  `
name: cut
description: cut and restore
tunnels: 1
steps:
  - { at: 2s, cut: [liqo-tunnel] }
  - { at: 4s, restore: [liqo-tunnel] }
expectations:
  - { by: 2s, value: Connected, tunnels: { liqo-tunnel: Connected } }
  - { by: 4s, value: Error, tunnels: { liqo-tunnel: Error } }
  - { by: 6s, value: Connected, tunnels: { liqo-tunnel: Connected } }
`,
  'cut.yaml',
);

describe('running a scenario', () => {
  test('carries out the steps at their times and sees the states in between', async () => {
    const lab = new FakeLab();
    const report = await lab.run(cutAndRestore);
    expect(report).toMatchObject({ ok: true, failures: [], steps: cutAndRestore.steps });
    expect(lab.calls).toEqual(['2000 cut liqo-tunnel', '4000 restore liqo-tunnel']);
  });

  test('says of an expectation that is not met in time what is and what is wanted, and goes on', async () => {
    const lab = new FakeLab();
    lab.onCut = () => {};
    const report = await lab.run(cutAndRestore);
    expect(report.ok).toBe(false);
    expect(report.failures).toEqual([
      'by 4s: ' +
        ['liqo-tenant-milan/gw-milan', 'liqo-tenant-rome/gw-rome']
          .map((key) => `${key}: is Connected, want Error; ${key}: liqo-tunnel is Connected, want Error`)
          .join('; '),
    ]);
    expect(report.reachedMs[1]).toBeUndefined();
    expect(lab.calls).toHaveLength(2);
  });

  test('lets no stale state pass as the final one', async () => {
    const lab = new FakeLab();
    lab.onRestore = () => {}; // it was Connected before, but does not become so again
    expect(await lab.run(cutAndRestore)).toMatchObject({ ok: false, reachedMs: [0, expect.any(Number), undefined] });
  });

  test('holds its time for an expectation that is late by less than the grace', async () => {
    const lab = new FakeLab();
    lab.status = {};
    lab.clock.after(10_000, () => {
      lab.status = connected;
    });
    const report = await lab.run(cutAndRestore, { graceMs: 20_000 });
    expect(report).toMatchObject({ ok: true, reachedMs: [2_000, expect.any(Number), expect.any(Number)] });
    expect(report.lateMs).toEqual([8_000, 0, 0]);
    expect(lab.calls[0]).toMatch(/^100\d\d cut/);
  });

  test('stands still while a step is carried out', async () => {
    const lab = new FakeLab();
    lab.stepTakesMs = 30_000;
    expect((await lab.run(cutAndRestore)).ok).toBe(true);
    expect(lab.calls).toEqual(['32000 cut liqo-tunnel', '64000 restore liqo-tunnel']);
  });

  test.each<[string, ConnectionStatus]>([
    ['is Connected, want Error', { ...failed, value: 'Connected' }],
    ['latency is 1ms, want none', { ...failed, latency }],
    [
      'liqo-tunnel is Error with a latency',
      { ...failed, tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Error', latency }] },
    ],
    ['liqo-tunnel is not listed, want Error', { value: 'Error', tunnels: [] }],
    [
      'liqo-tunnel1 is Connecting, want it not listed',
      { ...failed, tunnels: [...(failed.tunnels ?? []), { interfaceID: 'liqo-tunnel1', value: 'Connecting' }] },
    ],
  ])('sees that a status %s', async (fault, status) => {
    const lab = new FakeLab();
    lab.status = status;
    const [expectation] = cutAndRestore.expectations.slice(1, 2);
    const report = await lab.run({ ...cutAndRestore, steps: [], expectations: expectation ? [expectation] : [] });
    expect(report.failures.join()).toContain(fault);
  });

  test('wants the latency of a Connection to be the mean, and a Connected tunnel to have one unless unmonitored', async () => {
    const lab = new FakeLab();
    const tunnels = [{ interfaceID: 'liqo-tunnel', value: 'Connected' as const, latency }];
    lab.status = { value: 'Connected', latency: { ...latency, value: '9ms' }, tunnels };
    expect((await lab.run(cutAndRestore)).failures[0]).toContain('latency is 9ms, want 1ms');
    lab.status = { value: 'Connected', tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Connected' }] };
    expect((await lab.run(cutAndRestore)).failures[0]).toContain('liqo-tunnel is Connected without a latency');
    lab.status = {
      value: 'Connected',
      tunnels: [{ interfaceID: 'liqo-tunnel', value: 'Connected', reason: 'Unmonitored' }],
    };
    expect((await lab.run(cutAndRestore)).reachedMs[0]).toBe(0);
  });

  test('sees a value that came and went before a steady expectation, and looks at that not before its time', async () => {
    const steady = (until: string) =>
      parseScenario(
        `
name: steady
description: nothing happens
tunnels: 1
expectations:
  - { by: 1s, value: Connected, tunnels: { liqo-tunnel: Connected } }
  - { by: ${until}, value: Connected, tunnels: { liqo-tunnel: Connected }, steady: true }
`,
        'steady.yaml',
      );
    const lab = new FakeLab();
    expect(await lab.run(steady('5s'))).toMatchObject({ ok: true, reachedMs: [0, 5_000] });
    lab.clock.after(2_000, () => {
      const [tunnel] = connected.tunnels ?? [];
      const since = { lastTransitionTime: '2026-01-01T00:00:02Z' };
      lab.status = { ...connected, ...(tunnel && { tunnels: [{ ...tunnel, ...since }] }) };
    });
    const report = await lab.run(steady('5s'));
    expect(report.failures).toEqual([expect.stringContaining('liqo-tunnel is Connected since 2026-01-01T00:00:02Z')]);
  });

  test('ends with the reason of its signal', async () => {
    const lab = new FakeLab();
    await expect(lab.run(cutAndRestore, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
  });
});

/** Both Connections show `status`; cuts and restores change it at once. */
class FakeLab implements Lab {
  readonly clock = new VirtualClock();
  readonly calls: string[] = [];
  status: ConnectionStatus = connected;
  stepTakesMs = 0;
  onCut = () => {
    this.status = failed;
  };
  onRestore = () => {
    this.status = connected;
  };

  async run(scenario: Scenario, options: { readonly graceMs?: number; readonly signal?: AbortSignal } = {}) {
    let isDone = false;
    const report = runScenario(this, scenario, { clock: this.clock, ...options }).finally(() => {
      isDone = true;
    });
    report.catch(() => {});
    await this.clock.advanceUntil(() => isDone);
    return report;
  }

  async connections(): Promise<readonly Connection[]> {
    return LAB_GATEWAYS.map(({ namespace, name }) => ({
      metadata: { namespace, name: `gw-${name}`, uid: name, resourceVersion: '1' },
      spec: { type: 'Server', gatewayRef: { apiVersion: 'v1', kind: 'WgGatewayServer', name, namespace } },
      status: this.status,
    }));
  }

  async cut(interfaceId: string) {
    await this.#step(`cut ${interfaceId}`);
    this.onCut();
  }

  async restore(interfaceId: string) {
    await this.#step(`restore ${interfaceId}`);
    this.onRestore();
  }

  impair = async (interfaceId: string) => this.#step(`impair ${interfaceId}`);
  restartGateway = async (side: string) => this.#step(`restart ${side}`);
  setNats = async (isUp: boolean) => this.#step(`nats ${isUp}`);
  slowApi = async (delayMs: number) => this.#step(`slow ${delayMs}`);
  stepClock = async (byMs: number) => this.#step(`clock ${byMs}`);
  state = () => ({ tunnels: 1, impairments: [], functions: [] });
  sources = async () => Promise.reject(new Error('nobody watches it'));
  scale = async (tunnels: number) => this.#step(`scale ${tunnels}`);
  crash = async (name: string) => this.#step(`crash ${name}`);
  stop = async () => ({ unsent: 0 });
  [Symbol.asyncDispose] = async () => {};

  async #step(call: string) {
    if (this.stepTakesMs > 0) await this.clock.sleep(this.stepTakesMs);
    this.calls.push(`${Math.round(this.clock.monotonicMs())} ${call}`);
  }
}
