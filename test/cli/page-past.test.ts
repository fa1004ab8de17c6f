import { describe, expect, it } from 'vitest';
// @ts-expect-error: the page is JavaScript, checked on its own (infra/ui/tsconfig.json)
import { Model } from '../../infra/ui/model.js';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { type PastFilm, type PastReport, pagePast } from '../../shared/cli/page-past.ts';
import { RefusedAction } from '../../shared/ports/page-source.ts';
import { FunctionWorld, REF, SETTINGS } from '../support/function-world.ts';

const KEY = `${REF.namespace}/${REF.name}`;
const RECORDED = { intervalMs: 2_000, lossThreshold: 5, ...SETTINGS };
const NEVER = new AbortController().signal;

/** A tunnel that answers, is down for a while, and answers again. */
async function outage() {
  const world = new FunctionWorld();
  world.startAll();
  const gatewayEpoch = await world.announce(['liqo-tunnel']);
  let sequence = 0;
  const ping = async (kind: 'pong' | 'miss' | 'down') => {
    const value = kind === 'down' ? 'Error' : 'Connected';
    await world.observe({ gatewayEpoch, sequence: ++sequence, kind, value });
    await world.clock.advance(2_000);
  };
  for (const kind of ['pong', 'pong', 'miss', 'miss', 'miss', 'miss', 'down', 'down', 'pong', 'pong'] as const) {
    await ping(kind);
  }
  return { world, past: pagePast(new EmbeddedHistory(world.broker), world.clock, RECORDED) };
}

describe('the past of the page', () => {
  it('is a film that goes through the states, and ends in the one that the Connection has', async () => {
    const { world, past } = await outage();
    const { frames, recorded } = (await past.read({ minutes: 60 }, NEVER)) as PastFilm;
    expect(recorded).toEqual(RECORDED);
    expect(frames.map(({ atUnixMs }) => atUnixMs)).toEqual(frames.map(({ atUnixMs }) => atUnixMs).toSorted());
    const model = new Model();
    const values: string[] = [];
    for (const { patch } of frames) {
      model.apply(structuredClone(patch));
      const value = model.connections.get(KEY)?.tunnels.get('liqo-tunnel')?.value;
      if (value !== values.at(-1)) values.push(value);
    }
    expect(values).toEqual(['Connected', 'Error', 'Connected']);
    const { head, tunnels, series } = model.connections.get(KEY);
    expect(head.value).toBe(world.connection()?.status?.value);
    expect(tunnels.get('liqo-tunnel').value).toBe(world.tunnel()?.value);
    const bins = series.get('liqo-tunnel').bins as number[][];
    expect(bins.reduce((sum, [, pings = 0]) => sum + pings, 0)).toBe(10);
    expect(bins.reduce((sum, [, , lost = 0]) => sum + lost, 0)).toBe(6);
  });

  it('is judged by other settings', async () => {
    const { past } = await outage();
    const whatIf = { lossThreshold: 20, updateStatusIntervalMs: 10_000 };
    const { base, variants } = (await past.read({ minutes: 60, whatIf }, NEVER)) as PastReport;
    expect(base.statistics.outages).toHaveLength(1);
    expect(variants[0]?.statistics.outages).toEqual([]);
  });

  it.each([
    [{}, 'must have required property'],
    [{ minutes: 0 }, 'minutes: must be >= 1'],
    [{ minutes: 5, more: true }, 'must NOT have additional properties'],
    [{ minutes: 5, whatIf: { lossThreshold: 0, updateStatusIntervalMs: 1 } }, 'whatIf/lossThreshold: must be >= 1'],
  ])('refuses %j in words', async (query, words) => {
    const { past } = await outage();
    const refused = await Promise.resolve(past.read(query, NEVER)).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RefusedAction);
    expect((refused as Error).message).toContain(words);
  });
});
