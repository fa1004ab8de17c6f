import { setTimeout as sleep } from 'node:timers/promises';
import { fitLine } from '../statistics.ts';
import type { Handler } from './handler.ts';
import type { HandlerSample } from './handler-process.ts';

const SAMPLE_MS = 1_000;
const MINUTE_MS = 60_000;

export type Sampled = { readonly atMs: number; readonly sample: HandlerSample };

/** Takes a sample a second while `work` goes on, and one at its end; that one, and the first one from `warmMs` on, with the live heap. */
export async function whileSampling<Result>(
  handler: Handler,
  work: () => Promise<Result>,
  warmMs = Number.POSITIVE_INFINITY,
): Promise<{ readonly samples: readonly Sampled[]; readonly result: Result; readonly tookMs: number }> {
  const samples: Sampled[] = [];
  const over = new AbortController();
  const startMs = performance.now();
  await handler.sample(); // drops what was before
  const take = async (isLast = false) => {
    const atMs = performance.now() - startMs;
    const isFirstWarm = atMs >= warmMs && !samples.some((earlier) => earlier.atMs >= warmMs);
    samples.push({ atMs, sample: await handler.sample(isLast || isFirstWarm ? 'collected' : 'sample') });
  };
  const sampling = (async () => {
    while (!over.signal.aborted) {
      await take();
      await sleep(SAMPLE_MS, undefined, { signal: over.signal }).catch(() => {});
    }
  })();
  try {
    const result = await work();
    const tookMs = performance.now() - startMs;
    over.abort();
    await sampling;
    await take(true);
    return { samples, result, tookMs };
  } finally {
    over.abort();
    await sampling;
  }
}

/** By a line through those samples that have the value; 0 where there are fewer than two. */
export function growthPerMinute(
  samples: readonly Sampled[],
  figureOf: (sample: HandlerSample) => number | undefined,
): number {
  const points = samples.flatMap(({ atMs, sample }) => {
    const y = figureOf(sample);
    return y === undefined ? [] : [{ x: atMs / MINUTE_MS, y }];
  });
  return fitLine(points)?.slope ?? 0;
}
