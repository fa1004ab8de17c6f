import { describe, expect, it } from 'vitest';
import { simulate } from './simulation.ts';

const SEEDS = 200;
const SEEDS_A_TEST = 20;

describe('any replica, any crash, any order, one answer', () => {
  it.each(Array.from({ length: SEEDS / SEEDS_A_TEST }, (_, batch) => batch * SEEDS_A_TEST + 1))(
    'holds every invariant in the runs of 20 seeds from %i on',
    async (from) => {
      for (let seed = from; seed < from + SEEDS_A_TEST; seed++) {
        const { violations, trace } = await simulate({ seed });
        expect(violations, `npm run simulate -- --from-seed ${seed} --seeds 1\n${trace.slice(-40).join('\n')}`).toEqual(
          [],
        );
      }
    },
  );

  it('gives the same run for the same seed', async () => {
    const [first, second] = [await simulate({ seed: 7 }), await simulate({ seed: 7 })];
    expect(second.trace).toEqual(first.trace);
    expect(first.writes).toBeGreaterThan(10);
  });
});
