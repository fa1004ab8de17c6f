import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { jetstreamManager } from '@nats-io/jetstream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seedFileOf } from '../../infra/nats/make-users.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { BusUser } from '../../shared/domain/bus-user.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { observationSubject } from '../../shared/domain/subjects.ts';
import { eventually } from '../support/eventually.ts';
import { describeReal } from '../support/real-parts.ts';
import { type Workspace, workspace } from '../support/recorded-world.ts';
import { SecuredNats } from '../support/secured-nats.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { syntheticObservations } from '../support/synthetic-observations.ts';

const MAIN = join(import.meta.dirname, '../../shared/cli/main.ts');
const REPLAY: BusUser = { role: 'replay' };
/** Both tenants of the synthetic observations. */
const GATEWAYS: readonly BusUser[] = [0, 1].map((index) => ({ role: 'gateway', namespace: `liqo-tenant-${index}` }));
const OPTIONS = { connections: 2, tunnels: 2, intervalMs: 2_000, outageEvery: 60 };

await describeReal('replay of live NATS', ['nats-server', 'openssl'], () => {
  let nats: SecuredNats;
  let space: Workspace;
  const children = new Set<ChildProcess>();
  const buses: NatsBus[] = [];
  beforeAll(async () => {
    space = await workspace();
    nats = await SecuredNats.start([REPLAY, { role: 'setup' }, ...GATEWAYS]);
    for (const user of GATEWAYS) buses.push(NatsBus.open(nats.optionsOf(user), systemClock, silentLogger));
    for (const bus of buses) await bus.link.whenUp();
    await say(0, 300);
  });
  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL');
    for (const bus of buses) await bus.close();
    await nats[Symbol.asyncDispose]();
    await space[Symbol.asyncDispose]();
  });

  /** What gateways say from one number on, up to another. */
  async function say(from: number, to: number): Promise<void> {
    let at = 0;
    for (const { event } of syntheticObservations({ ...OPTIONS, rounds: 200 })) {
      if (at >= to) return;
      at += 1;
      if (event === undefined || at <= from) continue;
      const { namespace, connection, interfaceId } = event.data as {
        namespace: string;
        connection: string;
        interfaceId: string;
      };
      const subject = observationSubject({ namespace, name: connection }, interfaceId);
      const id = `${namespace}.${event.id}`;
      await buses[Number(namespace.at(-1))]?.publish(encodeCloudEvent(subject, { ...event, id }));
    }
  }

  function start(...args: string[]) {
    const login = [
      '--nats-url',
      nats.server.url,
      '--nats-credentials',
      seedFileOf(nats.folder, REPLAY),
      '--nats-ca',
      nats.caFile,
    ];
    const child = spawn(process.execPath, [MAIN, ...args, ...(args.includes('--file') ? [] : login)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH },
    });
    children.add(child);
    return child;
  }

  async function wgKeepalive(...args: string[]) {
    const child = start(...args);
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    return { out, err, code: code as number };
  }

  const stateOf = async () => {
    const manager = await jetstreamManager(await nats.connect({ role: 'setup' }));
    const streams = [];
    for await (const { config, state } of manager.streams.list()) {
      streams.push([config.name, state.last_seq, state.messages, state.consumer_count]);
    }
    return streams.sort();
  };

  it('writes the same bytes as a replay of the same window from a file', async () => {
    const before = await stateOf();
    const live = await wgKeepalive('replay');
    expect(live).toMatchObject({ code: 0, err: expect.stringContaining('replay of OBSERVATIONS') });
    const exported = await wgKeepalive('export', '--output', space.path('recording'));
    expect(exported.err).toContain('Connections are not in it');
    expect(exported).toMatchObject({ code: 0, out: expect.stringContaining('300 observations') });
    const fromFile = await wgKeepalive('replay', '--file', space.path('recording'));
    expect(fromFile.out).toBe(live.out);
    expect(live.out).toMatch(/300 events/);

    const windows = [
      ['--from', '#50', '--to', '#200', '--connection', 'liqo-tenant-1/gw-1'],
      ['--from', '-1ms', '--json'],
    ];
    for (const window of windows) {
      const [one, other] = [
        await wgKeepalive('replay', ...window),
        await wgKeepalive('replay', '--file', space.path('recording'), ...window),
      ];
      expect(one.code).toBe(0);
      expect(other.out).toBe(one.out);
    }
    // No message, no consumer, nothing is more or less than before.
    expect(await stateOf()).toEqual(before);
  });

  it('explains a Connection from the live stream', async () => {
    const { out, err, code } = await wgKeepalive('explain', 'liqo-tenant-0/gw-0', '--json');
    expect(err).toMatch(/note: who owns which field is not known: .*KUBECONFIG/);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ connection: 'liqo-tenant-0/gw-0', tunnels: [{}, {}] });
  });

  it('cannot write: the server refuses its user every subject but those of reading', async () => {
    const connection = await nats.connect(REPLAY);
    const refusals: string[] = [];
    void (async () => {
      for await (const status of connection.status()) if (status.type === 'error') refusals.push(status.error.message);
    })();
    const subjects = [
      ...['keepalive.liqo-tenant-0.gw-0.liqo-tunnel', 'observations.0.liqo-tenant-0.gw-0.liqo-tunnel', 'decisions.a.b'],
      ...['$KV.tunnel-state.a.b.c', '$JS.API.STREAM.PURGE.OBSERVATIONS', '$JS.API.CONSUMER.CREATE.OBSERVATIONS.x'],
    ];
    for (const subject of subjects) connection.publish(subject, '{}');
    await connection.flush();
    await eventually(() => refusals.length >= subjects.length, 'a refusal of every subject');
    for (const subject of subjects) expect(refusals.join('\n')).toContain(`"${subject}"`);
  });

  it('follows: the past, then what comes, each event once and in order, until it is told to stop', async () => {
    const child = start('replay', '--follow', '--json');
    let out = '';
    child.stdout.on('data', (data: Buffer) => {
      out += data.toString();
    });
    const sequences = () =>
      out
        .split('\n')
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { sequence: number }).sequence);
    await eventually(() => out.includes('"sequence":300') || (sequences().at(-1) ?? 0) > 280, 'the past');
    await say(300, 700);
    await eventually(() => (sequences().at(-1) ?? 0) > 660, 'what came');
    child.kill('SIGINT');
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
    const lines = out.trimEnd().split('\n');
    const { summary } = JSON.parse(lines.at(-1) as string);
    const whole = await wgKeepalive('replay', '--json', '--to', `#${summary.last.sequence}`);
    expect(whole.out).toBe(out);
  });

  it('stops cleanly at SIGINT in the middle', async () => {
    const child = start('replay', '--speed', '0.01');
    const output = text(child.stdout);
    await once(child.stdout, 'data').catch(() => {});
    child.kill('SIGINT');
    const [code] = await once(child, 'exit');
    expect(code).toBe(130);
    expect(await output).toMatch(/digest sha256:[0-9a-f]{64}\n$/);
  });

  it('says what retention has taken, and nothing of it before that', async () => {
    const replay = () => wgKeepalive('replay', '--from', '2020-01-01T00:00:00Z');
    const whole = await replay();
    expect(whole).toMatchObject({ code: 0, err: expect.not.stringContaining('note: what came before') });
    const { streams } = await jetstreamManager(await nats.connect({ role: 'setup' }));
    await streams.update('OBSERVATIONS', { max_msgs: 100 });
    const cut = await replay();
    expect(cut).toMatchObject({
      code: 0,
      err: expect.stringMatching(/note: what came before #\d{3} of \S+ is gone from the stream by retention/),
    });
  });

  it('says which end it cannot reach, and that a file would do', async () => {
    const child = spawn(process.execPath, [MAIN, 'replay', '--nats-url', 'nats://127.0.0.1:1'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    const [err, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect(code).toBe(2);
    expect(err).toMatch(/--nats-url nats:\/\/127\.0\.0\.1:1: .*refused/);
  });
});
