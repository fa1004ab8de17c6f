import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PrometheusMeter } from '../../shared/adapters/prometheus-meter.ts';
import { METRICS, type MetricName } from '../../shared/domain/metrics.ts';

const TUNNEL = { interface: 'liqo-tunnel1' };
const PEER = { driver: 'wireguard', cluster_id: 'b' };

/** Series of the text format, without comments: `name{labels}` → value. */
async function seriesOf(meter: PrometheusMeter): Promise<Map<string, number>> {
  const lines = (await meter.render()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

describe('PrometheusMeter', () => {
  it('exports nothing before the first sample', async () => {
    expect(await seriesOf(new PrometheusMeter())).toEqual(new Map());
  });

  it('counts, sets and observes by name and labels', async () => {
    const meter = new PrometheusMeter();
    meter.count('wg_keepalive_pings_sent_total', TUNNEL);
    meter.count('wg_keepalive_pings_sent_total', TUNNEL, 2);
    meter.gauge('wg_keepalive_tunnel_up', TUNNEL, 1);
    meter.observe('wg_keepalive_rtt_seconds', TUNNEL, 0.0012);
    meter.gauge('wg_keepalive_outbox_depth', {}, 7);
    const series = await seriesOf(meter);
    expect(series.get('wg_keepalive_pings_sent_total{interface="liqo-tunnel1"}')).toBe(3);
    expect(series.get('wg_keepalive_tunnel_up{interface="liqo-tunnel1"}')).toBe(1);
    expect(series.get('wg_keepalive_rtt_seconds_sum{interface="liqo-tunnel1"}')).toBe(0.0012);
    expect(series.get('wg_keepalive_rtt_seconds_bucket{le="0.001",interface="liqo-tunnel1"}')).toBe(0);
    expect(series.get('wg_keepalive_rtt_seconds_bucket{le="0.0025",interface="liqo-tunnel1"}')).toBe(1);
    expect(series.get('wg_keepalive_outbox_depth')).toBe(7);
  });

  it('shows 50 ms as 50 ms in microseconds and in seconds (C32)', async () => {
    const meter = new PrometheusMeter();
    for (let i = 0; i < 100; i++) meter.observe('liqo_peer_latency_histogram_us', PEER, 50_000);
    const series = await seriesOf(meter);
    const bucket = (le: number) =>
      series.get(`liqo_peer_latency_histogram_us_bucket{le="${le}",driver="wireguard",cluster_id="b"}`);
    expect([bucket(25_000), bucket(50_000), bucket(100_000)]).toEqual([0, 100, 100]);
  });

  it.each([-120, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    'drops a sample of %d and keeps the sum (C31)',
    async (bad) => {
      const meter = new PrometheusMeter();
      meter.observe('wg_keepalive_rtt_seconds', TUNNEL, 0.5);
      meter.count('wg_keepalive_pings_sent_total', TUNNEL, 4);
      meter.gauge('liqo_peer_latency_us', PEER, 1_200);
      const before = await seriesOf(meter);
      meter.observe('wg_keepalive_rtt_seconds', TUNNEL, bad);
      meter.count('wg_keepalive_pings_sent_total', TUNNEL, bad);
      if (!Number.isFinite(bad)) meter.gauge('liqo_peer_latency_us', PEER, bad);
      expect(await seriesOf(meter)).toEqual(before);
    },
  );

  it('keeps sum and count finite and growing, whatever is observed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.double()), async (samples) => {
        const meter = new PrometheusMeter();
        for (const sample of samples) meter.observe('wg_keepalive_event_age_seconds', { function: 'f' }, sample);
        const good = samples.filter((sample) => Number.isFinite(sample) && sample >= 0);
        const count = (await seriesOf(meter)).get('wg_keepalive_event_age_seconds_count{function="f"}') ?? 0;
        expect(count).toBe(good.length);
      }),
      { numRuns: 50 },
    );
  });

  it('removes the series of a tunnel that is gone, and no other', async () => {
    const meter = new PrometheusMeter();
    meter.gauge('wg_keepalive_tunnel_up', TUNNEL, 0);
    meter.gauge('wg_keepalive_tunnel_up', { interface: 'liqo-tunnel' }, 1);
    meter.observe('wg_keepalive_rtt_seconds', TUNNEL, 1);
    meter.remove('wg_keepalive_tunnel_up', TUNNEL);
    meter.remove('wg_keepalive_rtt_seconds', TUNNEL);
    meter.remove('wg_keepalive_transitions_total', TUNNEL);
    expect([...(await seriesOf(meter)).keys()]).toEqual(['wg_keepalive_tunnel_up{interface="liqo-tunnel"}']);
  });

  it('refuses a metric used as another type, and a label that the catalog does not know', () => {
    const meter = new PrometheusMeter();
    expect(() => meter.gauge('wg_keepalive_pings_sent_total', TUNNEL, 1)).toThrow(
      'metric wg_keepalive_pings_sent_total is a counter, not a gauge',
    );
    expect(() => meter.count('wg_keepalive_pings_sent_total', { peer: 'x' })).toThrow('peer');
  });

  it('takes every metric of the catalog', async () => {
    const meter = new PrometheusMeter();
    for (const [name, { type, labels }] of Object.entries(METRICS) as [MetricName, (typeof METRICS)[MetricName]][]) {
      const values = Object.fromEntries(labels.map((label) => [label, 'x']));
      if (type === 'counter') meter.count(name, values);
      if (type === 'gauge') meter.gauge(name, values, 1);
      if (type === 'histogram') meter.observe(name, values, 1);
    }
    const text = await meter.render();
    for (const name of Object.keys(METRICS)) expect(text).toContain(`# TYPE ${name} `);
  });
});
