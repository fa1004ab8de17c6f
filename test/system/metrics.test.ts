import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { requireServer } from '../../infra/servers/find.ts';
import { METRICS, type MetricName, type MetricSource, type MetricSpec } from '../../shared/domain/metrics.ts';
import { encodePingMessage } from '../../shared/domain/ping-wire.ts';
import { eventually } from '../support/eventually.ts';
import { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { describeReal } from '../support/real-parts.ts';
import { after, UdpPeer } from '../support/udp-peer.ts';
import { WgKeepalive } from '../support/wg-keepalive.ts';

const PORT = 24_611;
const PEER_DELAY_MS = 50;
const ADDRESSES = ['127.61.0.1', '127.62.0.1'] as const;
const TUNNELS = ['up', 'down'] as const;

type Exposed = {
  readonly type: string;
  readonly series: readonly { readonly labels: string; readonly value: number }[];
};

/** The text format, by the name of the metric. */
function parseExposition(exposition: string): ReadonlyMap<string, Exposed> {
  const exposed = new Map<string, { type: string; series: { labels: string; value: number }[] }>();
  for (const line of exposition.split('\n')) {
    const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (name !== undefined && type !== undefined) exposed.set(name, { type, series: [] });
    const [, sample = '', labels = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (value === undefined) continue;
    const metric = exposed.get(sample) ?? exposed.get(sample.replace(/_(bucket|sum|count)$/, ''));
    metric?.series.push({ labels, value: Number(value) });
  }
  return exposed;
}

const names = Object.keys(METRICS) as MetricName[];
const specOf = (name: string) => (METRICS as Readonly<Record<string, MetricSpec>>)[name];

await describeReal('metrics of real processes', ['nats-server', 'etcd', 'kube-apiserver', 'promtool'], () => {
  const cleanUp = new AsyncDisposableStack();
  let gateway: WgKeepalive;
  let functions: WgKeepalive;
  let peer: UdpPeer;

  beforeAll(async () => {
    const parts = cleanUp.use(await FunctionsOnRealParts.start());
    const namespace = await parts.kubernetes.namespace();
    functions = await parts.startFunctions(['--ping-update-status-interval=500ms']);
    await functions.untilReady();
    // One tunnel's peer answers, as the Go implementation would; nobody is at the other's.
    peer = await UdpPeer.start({ address: ADDRESSES[1], port: PORT }, after(PEER_DELAY_MS));
    cleanUp.defer(() => peer.close());
    const tunnels = [`--tunnel=up=${ADDRESSES.join()}`, '--tunnel=down=127.61.0.2,127.62.0.2'];
    const identity = [`--namespace=${namespace}`, '--name=rome', '--mode=server', '--remote-cluster-id=milan'];
    const ping = [`--ping-port=${PORT}`, '--ping-interval=50ms', '--ping-loss-threshold=20'];
    const args = ['gateway', ...identity, ...tunnels, ...ping, `--nats-url=${parts.nats.url}`];
    gateway = cleanUp.use(await WgKeepalive.start({ args, env: process.env, folder: parts.kubernetes.folder }));
    await eventually(() => gateway.isAlive().catch(() => false), 'the gateway');
    await eventually(
      async () => (await metricsOf(gateway)).has('wg_keepalive_deadline_deviation_seconds'),
      'a verdict',
    );
    await eventually(
      async () => (await functions.metric('wg_keepalive_api_writes_total', { function: 'connection-aggregate' })) > 0,
      'an aggregate',
    );
  });
  afterAll(() => cleanUp.disposeAsync());

  const metricsOf = async (process: WgKeepalive) => parseExposition(await process.metrics());

  test.each([
    ['gateway', () => gateway],
    ['function', () => functions],
  ] as const)(
    'a %s exports what the catalog says of it: that type, those labels, nothing else',
    async (source, process) => {
      const exposed = await metricsOf(process());
      const mayHave = names.filter((name) => (METRICS[name].by as readonly MetricSource[]).includes(source));
      expect([...exposed.keys()].filter((name) => !mayHave.includes(name as MetricName))).toEqual([]);
      const mustHave = mayHave.filter((name) => specOf(name)?.once === undefined);
      expect(mustHave.filter((name) => !exposed.get(name)?.series.length)).toEqual([]);
      for (const [name, { type, series }] of exposed) {
        const spec = specOf(name) as MetricSpec;
        expect(type, name).toBe(spec.type);
        for (const { labels } of series) {
          const found = [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label).filter((label) => label !== 'le');
          expect(found.sort(), name).toEqual([...spec.labels].sort());
        }
      }
    },
  );

  test.each([
    ['gateway', () => gateway],
    ['function', () => functions],
  ] as const)('promtool finds nothing to say of a %s, but of the names that Liqo has given', async (_, process) => {
    const promtool = await requireServer('promtool');
    const lint = spawn(promtool, ['check', 'metrics'], { stdio: 'pipe' });
    lint.stdin.end(await process().metrics());
    const said = `${await text(lint.stdout)}${await text(lint.stderr)}`.trim().split('\n').filter(Boolean);
    expect(said.filter((line) => !/^liqo_peer_\w+_us /.test(line))).toEqual([]);
  });

  test('a tunnel that is down shows 0 and no round trip, one that is up shows both', async () => {
    const exposed = await metricsOf(gateway);
    const of = (name: MetricName, tunnel: (typeof TUNNELS)[number]) =>
      exposed.get(name)?.series.find(({ labels }) => labels.includes(`interface="${tunnel}"`))?.value;
    expect(TUNNELS.map((tunnel) => of('wg_keepalive_tunnel_up', tunnel))).toEqual([1, 0]);
    expect(of('wg_keepalive_rtt_last_seconds', 'down')).toBeUndefined();
    expect(of('wg_keepalive_rtt_last_seconds', 'up')).toBeGreaterThanOrEqual((PEER_DELAY_MS - 1) / 1_000);
    expect(exposed.get('liqo_peer_is_connected')?.series[0]?.value).toBe(0);
    expect(exposed.get('liqo_peer_latency_us')?.series ?? []).toEqual([]);
  });

  test('50 ms are 50,000 µs and 0.05 s: half of 100 PONGs are in the right bucket of both histograms (C32)', async () => {
    await eventually(async () => (await gateway.metric('wg_keepalive_rtt_seconds_count')) >= 100, '100 PONGs');
    const share = async (name: string, le: string) => {
      const [below, all] = await Promise.all([
        gateway.metric(`${name}_bucket`, { le }),
        gateway.metric(`${name}_count`),
      ]);
      return below / all;
    };
    expect(await share('wg_keepalive_rtt_seconds', '0.025')).toBe(0);
    expect(await share('wg_keepalive_rtt_seconds', '0.1')).toBeGreaterThan(0.5);
    expect(await share('liqo_peer_latency_histogram_us', '25000')).toBe(0);
    expect(await share('liqo_peer_latency_histogram_us', '100000')).toBeGreaterThan(0.5);
    await eventually(async () => {
      const [seconds = 0] = [await gateway.metric('wg_keepalive_rtt_last_seconds')];
      return seconds >= 0.049 && seconds <= 0.07;
    }, 'a last round trip of 50 to 70 ms');
  });

  test('10,000 datagrams with names of all kinds add no series (C34)', async () => {
    const shapeOf = async () =>
      (await gateway.metrics())
        .split('\n')
        .filter(
          (line) => line !== '' && !line.startsWith('#') && !line.startsWith('wg_keepalive_packets_dropped_total'),
        )
        .map((line) => line.slice(0, line.lastIndexOf(' ')))
        .sort();
    const before = await shapeOf();
    const dropped = await gateway.metric('wg_keepalive_packets_dropped_total');
    for (let index = 0; index < 10_000; index++) {
      const timeStamp = { seconds: 1_700_000_000 + index, nanos: index };
      const datagram = encodePingMessage({
        clusterId: `stranger-${index}`,
        msgType: index % 2 ? 'PONG' : 'PING',
        timeStamp,
      });
      peer.socket.send(datagram, PORT, ADDRESSES[0]);
      if (index % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 1)); // buffers are finite
    }
    await eventually(
      async () => (await gateway.metric('wg_keepalive_packets_dropped_total')) > dropped + 1_000,
      'drops',
    );
    expect(await shapeOf()).toEqual(before);
  });
});
