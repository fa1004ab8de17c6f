import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RecordingWriter } from '../../shared/adapters/recording-file.ts';
import { explainSource } from '../../shared/cli/commands/explain.ts';
import { replayDiff } from '../../shared/cli/replay-diff.ts';
import { OtherReplay } from '../../shared/cli/replay-diff-with.ts';
import { replayTimeline, runTimeline } from '../../shared/cli/replay-timeline.ts';
import { functionSettingsOf } from '../../shared/cli/replay-variants.ts';
import { recordingHeader } from '../../shared/cli/write-recording.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import { formatExplanation } from '../../shared/domain/explanation.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import type { ReplayWindow } from '../../shared/domain/replay-window.ts';
import { type ConnectionStore, StoreError } from '../../shared/ports/connection-store.ts';
import { FunctionWorld, REF, SETTINGS } from '../support/function-world.ts';
import { probeRecording } from '../support/probe-recording.ts';
import { NEVER, openFile, record, type Workspace, workspace, written } from '../support/recorded-world.ts';

let space: Workspace;
beforeAll(async () => {
  space = await workspace();
});
afterAll(() => space[Symbol.asyncDispose]());

type Options = {
  readonly connections?: (store: ConnectionStore) => ConnectionStore;
  readonly settings?: FunctionSettings;
};

async function worldWith(options: Options, rounds: (world: FunctionWorld, epoch: number) => Promise<void>) {
  const world = new FunctionWorld();
  for (const name of [
    'tunnel-status',
    'connection-watch',
    'connection-aggregate',
    'connection-ensure',
    'gateway-silence',
  ]) {
    world.start(name, name === 'tunnel-status' ? options : {});
  }
  const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
  await rounds(world, epoch);
  await world.clock.settle();
  return world;
}

/** One round every 2 s; `liqo-tunnel1` loses its PONGs in rounds 10 to 17. */
async function rounds(world: FunctionWorld, gatewayEpoch: number, from = 1, to = 40): Promise<void> {
  for (let sequence = from; sequence <= to; sequence++) {
    await world.observe({ gatewayEpoch, sequence, kind: 'pong', rttNs: (100 + sequence) * 10_000 });
    const lost = sequence >= 10 && sequence < 18 ? sequence - 9 : 0;
    const kind = lost === 0 ? 'pong' : lost < 5 ? 'miss' : 'down';
    const about = { gatewayEpoch, sequence, kind, interfaceId: 'liqo-tunnel1' } as const;
    await world.observe(kind === 'down' ? { ...about, reason: 'Lost', message: 'no PONG' } : about);
    await world.clock.advance(2_000);
  }
}

function ghostly(connection: Connection | undefined): Connection | undefined {
  const tunnels = [...(connection?.status?.tunnels ?? []), { interfaceID: 'ghost', value: 'Connected' } as const];
  return connection && { ...connection, status: { ...connection.status, tunnels } };
}

async function timelineOf(path: string, window: ReplayWindow = {}, speed = Number.POSITIVE_INFINITY, json = false) {
  const source = await openFile(path, window);
  const { text } = await written((output) =>
    replayTimeline(source, { settings: SETTINGS, speed, json, output, stop: NEVER }),
  );
  return text;
}

/** By the settings that the record tells, as the command does, unless others are stated. */
async function diffOf(path: string, window: ReplayWindow = {}, stated?: FunctionSettings) {
  const source = await openFile(path, window);
  const settings = stated ?? functionSettingsOf(source.settings);
  const options = { settings, json: true, stop: NEVER, endsEarly: window.to !== undefined };
  const { text, result } = await written((output) => replayDiff(source, { ...options, output }));
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  return { exitCode: result, end: lines.at(-1), differences: lines.slice(0, -1) };
}

describe('replay --file', () => {
  it('writes the same bytes at any speed, and ends with the Connections and a digest', async () => {
    const world = await worldWith({}, (one, epoch) => rounds(one, epoch));
    await record(world, space.path('plain'));
    const text = await timelineOf(space.path('plain'));
    expect(await timelineOf(space.path('plain'), {}, 1_000)).toBe(text);
    expect(text).toMatch(
      /liqo-tunnel1 {2}Connected -> Error \[Lost\] no PONG \(Transition\) {2}\(6 throttled before\) {2}=> Connected/,
    );
    expect(text).toMatch(/aggregate {2}Connected -> Error \[TunnelsFailed\] 1 of 2 tunnels failed/);
    expect(text).toMatch(/liqo-tenant-rome\/gw-rome \(uid-\d+\) Connected 1\.\d+ms all 2 tunnels are Connected\n/);
    expect(text.trimEnd().split('\n').at(-1)).toMatch(/^digest sha256:[0-9a-f]{64}$/);
  });

  it('takes a window by sequence, by time and before the end', async () => {
    const json = async (window: ReplayWindow) => {
      const lines = (await timelineOf(space.path('plain'), window, Number.POSITIVE_INFINITY, true))
        .trimEnd()
        .split('\n');
      return JSON.parse(lines.at(-1) as string).summary;
    };
    const all = await json({});
    const { events } = all;
    expect(events).toBeGreaterThan(80);
    expect(all).toMatchObject({ first: { sequence: 1 }, last: { sequence: events }, assumed: [] });
    const sequence = (n: number) => ({ kind: 'sequence', sequence: n }) as const;
    expect(await json({ from: sequence(10), to: sequence(20) })).toMatchObject({ events: 11, first: { sequence: 10 } });
    const halfMs = (all.first.storedAtUnixMs + all.last.storedAtUnixMs) / 2;
    const early = await json({ to: { kind: 'time', unixMs: halfMs } });
    const late = await json({ from: { kind: 'time', unixMs: halfMs + 0.5 } });
    expect(early.events + late.events).toBe(events);
    expect(late.assumed).toHaveLength(2);
    expect(await json({ from: { kind: 'relative', beforeEndMs: 4_000 } })).toMatchObject({ events: 6 });
    expect(await json({ connection: { namespace: 'x', name: 'y' } })).toMatchObject({ events: 0, connections: [] });
  });
});

describe('replay --diff', () => {
  it('agrees with what the functions did when nothing went wrong', async () => {
    expect(await diffOf(space.path('plain'))).toMatchObject({ exitCode: 0, differences: [], end: { differs: false } });
    expect((await diffOf(space.path('plain'))).end.decisionsThatAgree).toBeGreaterThan(10);
  });

  it('takes a window that holds nothing for no agreement, and says what there is', async () => {
    const nobody = { connection: { namespace: 'x', name: 'y' } };
    await expect(diffOf(space.path('plain'), nobody)).rejects.toThrow(
      /--diff: no event is in the window, .*; there are #1 \S+ to #\d+ \S+, of liqo-tenant-rome\/gw-rome$/,
    );
  });

  it('takes a recording without decisions and Connections for no agreement either', async () => {
    const writer = await RecordingWriter.create(space.path('observed only'), recordingHeader({ source: 'capture' }));
    await writer.messages(probeRecording({ intervalMs: 2_000, lossThreshold: 5 }, [], 20_000));
    await writer.finish();
    await expect(diffOf(space.path('observed only'))).rejects.toThrow(
      /--diff: .*observed only holds no decision and no Connection of the \d+ events in the window/,
    );
  });

  it('blames the start of a window that begins after the listing, and nobody else', async () => {
    const { exitCode, end } = await diffOf(space.path('plain'), { from: { kind: 'sequence', sequence: 30 } });
    expect(Object.keys(end.differences)).toEqual(['window-start']);
    expect(exitCode).toBe(0);
  });

  it('blames the start of a window wherever that falls, within an outage too', async () => {
    for (let sequence = 2; sequence <= 80; sequence += 2) {
      const { exitCode, differences } = await diffOf(space.path('plain'), { from: { kind: 'sequence', sequence } });
      const others = differences.filter(({ cause }) => cause !== 'window-start');
      expect({ sequence, exitCode, others }).toEqual({ sequence, exitCode: 0, others: [] });
    }
  });

  it('blames the end of a window that ends early', async () => {
    const { exitCode, end } = await diffOf(space.path('plain'), { to: { kind: 'sequence', sequence: 40 } });
    expect(Object.keys(end.differences)).toEqual(['after-window']);
    expect(exitCode).toBe(0);
  });

  it('classes writes that the API refused as its trouble', async () => {
    let isDown = false;
    const failing = (store: ConnectionStore): ConnectionStore => ({
      ...{ get: store.get.bind(store), ensure: store.ensure.bind(store), removeTunnel: store.removeTunnel.bind(store) },
      applyAggregate: store.applyAggregate.bind(store),
      applyTunnel: async (...args) => {
        if (isDown) throw new StoreError('unavailable', 'down', { status: 503 });
        return store.applyTunnel(...args);
      },
    });
    const world = await worldWith({ connections: failing }, async (one, epoch) => {
      await rounds(one, epoch, 1, 12);
      isDown = true;
      await rounds(one, epoch, 13, 16);
      isDown = false;
      await rounds(one, epoch, 17, 40);
    });
    await record(world, space.path('trouble'));
    const { exitCode, end, differences } = await diffOf(space.path('trouble'));
    expect(exitCode).toBe(1);
    expect(end.differences['api-trouble']).toBeGreaterThan(0);
    expect(differences.filter(({ cause }) => cause === 'unexplained')).toEqual([]);
    expect(differences[0].message).toMatch(/recorded as failed \(unavailable\)/);
  });

  it('judges by the settings that the functions had, by their decisions', async () => {
    const settings = { ...SETTINGS, updateStatusIntervalMs: 5_000 };
    const world = await worldWith({ settings }, (one, epoch) => rounds(one, epoch));
    await record(world, space.path('other settings'));
    expect((await openFile(space.path('other settings'))).settings).toEqual({ pingUpdateStatusIntervalMs: 5_000 });
    const { exitCode, end } = await diffOf(space.path('other settings'));
    expect(end).toMatchObject({ differences: {}, judgedBy: { updateStatusIntervalMs: 5_000 } });
    expect(exitCode).toBe(0);
  });

  it('names another setting as the cause where that is stated', async () => {
    const { exitCode, end, differences } = await diffOf(space.path('other settings'), {}, SETTINGS);
    expect(Object.keys(end.differences)).toEqual(['other-settings']);
    expect(end.differences['other-settings']).toBeGreaterThan(10);
    expect(differences[0].message).toMatch(/judged by ping-update-status-interval 5s, the replay by 10s/);
    expect(exitCode).toBe(1);
  });

  it('explains what functions decided after they were set otherwise, and finds that in a window from then on', async () => {
    const world = new FunctionWorld();
    const others = ['connection-watch', 'connection-aggregate', 'connection-ensure', 'gateway-silence'];
    for (const name of others) world.start(name);
    const first = world.start('tunnel-status');
    const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
    await rounds(world, epoch, 1, 20);
    await first.stop();
    world.start('tunnel-status', { settings: { ...SETTINGS, updateStatusIntervalMs: 3_000 } });
    await rounds(world, epoch, 21, 40);
    await record(world, space.path('set otherwise'));
    const { end } = await diffOf(space.path('set otherwise'));
    expect(end.judgedBy.updateStatusIntervalMs).toBe(10_000);
    expect(Object.keys(end.differences)).toEqual(['other-settings']);

    const late = await diffOf(space.path('set otherwise'), { from: { kind: 'sequence', sequence: 60 } });
    expect(late.end.judgedBy.updateStatusIntervalMs).toBe(3_000);
    expect(Object.keys(late.end.differences)).toEqual(['window-start']);
    expect(late.exitCode).toBe(0);
  });

  it('names the foreign manager of an entry that no event explains', async () => {
    const world = await worldWith({}, (one, epoch) => rounds(one, epoch, 1, 9));
    world.kubernetes.foreignPut(REF, 'kubectl-edit', (status) => ({
      ...status,
      tunnels: (status.tunnels ?? []).map((tunnel) => ({ ...tunnel, reason: 'Edited' })),
    }));
    await record(world, space.path('foreign'));
    const { exitCode, differences } = await diffOf(space.path('foreign'));
    expect(exitCode).toBe(1);
    expect(differences.map(({ cause }) => cause)).toEqual(['foreign-writer', 'foreign-writer']);
    expect(differences[0].message).toMatch(/kubectl-edit \(Update: .*reason/);
    expect(differences[0].events.at(-1)).toMatch(/pong Connected/);
  });

  it('sees a live entry that is some writes behind as late', async () => {
    const world = await worldWith({}, (one, epoch) => rounds(one, epoch, 1, 30));
    const late = world.connection();
    await rounds(world, (await world.lastMessages('GATEWAYS', 'gateways.>'))[0]?.streamSequence ?? 0, 31, 38);
    await record(world, space.path('late'), { connection: async () => late });
    const { differences } = await diffOf(space.path('late'));
    expect(differences.map(({ cause }) => cause)).toContain('lateness');
    expect(differences[0].message).toMatch(/it is as of #\d+, \d+ writes? behind/);
  });

  it('tells an entry that no event is about', async () => {
    const world = await worldWith({}, (one, epoch) => rounds(one, epoch, 1, 3));
    const shown = world.connection();
    // connection-ensure takes it away at once: what is shown is the moment before.
    await record(world, space.path('ghost'), { connection: async () => ghostly(shown) });
    const { differences } = await diffOf(space.path('ghost'));
    expect(differences).toEqual([
      expect.objectContaining({ cause: 'orphan-entry', about: 'liqo-tenant-rome/gw-rome ghost' }),
    ]);
  });
});

describe('replay --diff-with', () => {
  async function against(path: string, other: string) {
    const source = await openFile(path);
    return written(async (output) => {
      const replay = await OtherReplay.open(other);
      const summary = await runTimeline(source, {
        ...{ settings: SETTINGS, speed: Number.POSITIVE_INFINITY, stop: NEVER },
        onStep: (step) => replay.step(step),
        onBatch: () => replay.compare(output),
      });
      const differs = await replay.finish(output, summary);
      await output.flush();
      return differs;
    });
  }

  it('agrees with a replay of the same window, and names the steps where another differs', async () => {
    const json = await timelineOf(space.path('plain'), {}, Number.POSITIVE_INFINITY, true);
    await writeFile(space.path('same.json'), json);
    expect((await against(space.path('plain'), space.path('same.json'))).result).toBe(false);

    const lines = json.split('\n');
    const at = lines.findIndex((line) => line.includes('"value":"Error","reason":"Lost"'));
    await writeFile(space.path('other.json'), lines.toSpliced(at, 1).join('\n'));
    const { text, result } = await against(space.path('plain'), space.path('other.json'));
    expect(result).toBe(true);
    expect(text).toMatch(/^only here .*Connected -> Error/);
    expect(text.split('\n').filter(Boolean)).toHaveLength(2);
  });

  it.each([
    ['empty', '', /is empty/],
    ['text', 'hello\n', /line 1 is not what replay --json writes/],
    ['another JSON', '{"a":1}\n', /line 1 is not/],
    ['cut off', '{"step":1,"sequence":1,"kind":"written","reason":"x","storedAtUnixMs":1}\n', /no summary/],
  ])('refuses a file that is %s', async (name, content, message) => {
    await writeFile(space.path(`bad ${name}`), content);
    await expect(against(space.path('plain'), space.path(`bad ${name}`))).rejects.toThrow(message);
  });
});

describe('explain', () => {
  const explained = async (name: string, window: ReplayWindow = {}) => {
    const source = await openFile(space.path(name), { connection: REF, ...window });
    const explanation = await explainSource(source, REF, window.to, NEVER);
    if (explanation === undefined) throw new Error('was interrupted');
    return { explanation, text: formatExplanation(explanation).join('\n') };
  };

  it('names the events behind the value of each tunnel at any time', async () => {
    const { explanation, text } = await explained('plain', {
      to: { kind: 'time', unixMs: Date.UTC(2026, 0, 1, 0, 0, 30) },
    });
    expect(explanation).toMatchObject({ value: 'Error', reason: 'TunnelsFailed' });
    expect(explanation.tunnels.map(({ tunnel }) => tunnel.value)).toEqual(['Connected', 'Error']);
    expect(explanation.tunnels[1]?.changes.at(-1)).toMatch(
      /^#\d+ \S+:26\.000Z became liqo-tunnel1 Error \[Lost\] no PONG/,
    );
    expect(text).toMatch(/#\d+ \S+:16\.000Z pong Connected .* 1\.000 ms/);
    expect(text).toMatch(/#\d+ \S+:18\.000Z miss Connected/);
    expect(explanation).not.toHaveProperty('owners');
    expect(text).toMatch(/^fields: not known as of then$/m);
  });

  it('says who owns what now, and what is suspicious', async () => {
    const plain = await explained('plain');
    expect(plain.explanation.owners).toContain(
      'liqo-tunnel: liqo-tunnel (Apply) owns interfaceID, value, latency, lastTransitionTime',
    );
    expect(plain.explanation.suspicious).toEqual([]);
    const foreign = await explained('foreign');
    expect(foreign.explanation.suspicious[0]).toMatch(/foreign manager of liqo-tunnel: kubectl-edit/);
    const ghost = await explained('ghost');
    expect(ghost.explanation.suspicious.join()).toMatch(/orphan entry: ghost/);
  });

  it('says so where nobody has listed the tunnels that are observed', async () => {
    const world = new FunctionWorld();
    world.start('tunnel-status');
    await world.observe({ gatewayEpoch: 1, sequence: 1, kind: 'pong', rttNs: 1_000_000 });
    await record(world, space.path('unlisted'));
    await expect(explained('unlisted')).rejects.toThrow(
      /gw-rome: .* holds 1 events of it, none of which lists a tunnel: does connection-ensure run\?$/,
    );
  });

  it('sees clock steps, restarts, gaps and silence', async () => {
    const world = await worldWith({}, async (one, epoch) => {
      await rounds(one, epoch, 1, 4);
      one.clock.stepUnix(3_600_000);
      await rounds(one, epoch, 7, 9);
      const next = await one.announce(['liqo-tunnel', 'liqo-tunnel1']);
      await rounds(one, next, 1, 2);
      await one.clock.advance(100_000);
    });
    await record(world, space.path('suspicious'));
    const { explanation } = await explained('suspicious');
    const text = explanation.suspicious.join('\n');
    expect(text).toMatch(/clock-step at #\d+ .*stepped by 3600000 ms/);
    expect(text).toMatch(/restart at #\d+ .*gateway run \d+ began/);
    expect(text).toMatch(/gap: 4 observations/);
    expect(text).toMatch(/gateway silent: liqo-tunnel1 is Error/);
  });
});
