import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbeddedLab } from '../../infra/lab/embedded-lab.ts';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { explainSource } from '../../shared/cli/commands/explain.ts';
import { replayDiff } from '../../shared/cli/replay-diff.ts';
import { replayTimeline } from '../../shared/cli/replay-timeline.ts';
import { functionSettingsOf } from '../../shared/cli/replay-variants.ts';
import { replayWhatIf } from '../../shared/cli/replay-what-if.ts';
import { writeRecording } from '../../shared/cli/write-recording.ts';
import { type Connection, type ConnectionValue, connectionKey } from '../../shared/domain/connection.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import type { FinalConnection } from '../../shared/domain/replay-step.ts';
import { eventually } from '../support/eventually.ts';
import { NEVER, openFile, type Workspace, workspace, written } from '../support/recorded-world.ts';
import { silentLogger } from '../support/silent-logger.ts';

const PING = { ...DEFAULT_PING_SETTINGS, intervalMs: 100, lossThreshold: 5, updateStatusIntervalMs: 500 };
const FUNCTIONS = { updateStatusIntervalMs: 500, gatewaySilentAfterMs: 30_000 };
/** As an export of NATS knows them; how the functions were set, their decisions tell. */
const SETTINGS = { pingIntervalMs: 100, pingLossThreshold: 5 };

/** Real gateways, real UDP, two replicas of every function: what they did is in the file, and comes out of it again. */
describe('a recording of the lab', () => {
  let space: Workspace;
  let live: readonly Connection[];
  beforeAll(async () => {
    space = await workspace();
    await using lab = await startEmbeddedLab({
      tunnels: 2,
      replicas: 2,
      ping: PING,
      functions: FUNCTIONS,
      log: silentLogger,
    });
    const areAll = (value: ConnectionValue) => async () => {
      const connections = await lab.connections();
      return connections.length === 2 && connections.every(({ status }) => status?.value === value);
    };
    await eventually(areAll('Connected'), 'both Connected');
    await lab.cut('liqo-tunnel1');
    await eventually(areAll('Error'), 'both in Error');
    await lab.crash('tunnel-status');
    await lab.restore('liqo-tunnel1');
    await eventually(areAll('Connected'), 'both Connected again');
    await lab.stop();
    live = await lab.connections();
    await writeRecording(space.path('lab'), {
      ...{ source: 'lab', history: new EmbeddedHistory(lab.broker), settings: SETTINGS },
      connection: async (ref) => lab.kubernetes.get(ref),
    });
  });
  afterAll(() => space[Symbol.asyncDispose]());

  it('replays to the Connections that the lab had, by the writes that it made', async () => {
    const source = await openFile(space.path('lab'));
    const options = { settings: FUNCTIONS, speed: Number.POSITIVE_INFINITY, json: true, stop: NEVER };
    const { text } = await written((output) => replayTimeline(source, { ...options, output }));
    const { summary } = JSON.parse(text.trimEnd().split('\n').at(-1) as string);
    const states = (all: readonly { readonly name: string; readonly status: Connection['status'] }[]) =>
      all.map(({ name, status }) => [
        name,
        status?.value,
        status?.tunnels?.map(({ interfaceID, value }) => [interfaceID, value]),
      ]);
    expect(states(summary.connections as FinalConnection[])).toEqual(
      states(live.map(({ metadata: { namespace, name }, status }) => ({ namespace, name, status })).sort(byName)),
    );
    expect(summary).toMatchObject({ missing: 0, assumed: [], outcomes: { invalid: 0, failed: 0 } });

    expect(source.settings).toEqual({ ...SETTINGS, pingUpdateStatusIntervalMs: 500 });
    const diff = await written(async (output) =>
      replayDiff(await openFile(space.path('lab')), {
        settings: functionSettingsOf(source.settings),
        json: true,
        output,
        stop: NEVER,
        endsEarly: false,
      }),
    );
    const lines = diff.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.filter(({ cause }) => cause === 'unexplained')).toEqual([]);
    expect(lines.at(-1).decisionsThatAgree).toBeGreaterThan(6);
  });

  it('tells the outage of both sides, and what another threshold would have told', async () => {
    const source = await openFile(space.path('lab'));
    const variants = [{ label: 'ping-loss-threshold=3', changes: { pingLossThreshold: 3 } }];
    const { text } = await written((output) => replayWhatIf(source, variants, { json: true, output, stop: NEVER }));
    const { recorded, base, variants: results } = JSON.parse(text);
    expect(recorded).toMatchObject({ intervalMs: 100, lossThreshold: 5 });
    expect(base.statistics.outages.length).toBeGreaterThanOrEqual(2);
    const { earlier, later, unreported } = results[0].comparedToBase;
    expect([earlier, later, unreported]).toEqual([base.statistics.outages.length, 0, []]);
  });

  it('explains each Connection, with the owners of its fields', async () => {
    for (const { metadata } of live) {
      const source = await openFile(space.path('lab'), { connection: metadata });
      const explanation = await explainSource(source, metadata, undefined, NEVER);
      expect(explanation).toMatchObject({ connection: connectionKey(metadata), value: 'Connected' });
      const outage = explanation?.tunnels.find(({ tunnel }) => tunnel.interfaceID === 'liqo-tunnel1');
      expect(outage?.changes.join('\n')).toMatch(
        /became liqo-tunnel1 Error \[Lost\] no PONG since .*\n.*became liqo-tunnel1 Connected/,
      );
      expect(explanation?.owners?.join('\n')).toMatch(/liqo-tunnel1: liqo-tunnel1 \(Apply\) owns/);
      expect(explanation?.suspicious.filter((line) => /foreign|orphan|gap|clock/.test(line))).toEqual([]);
    }
  });
});

function byName(a: { readonly namespace: string }, b: { readonly namespace: string }): number {
  return a.namespace < b.namespace ? -1 : 1;
}
