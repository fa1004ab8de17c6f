import { describe, expect, it } from 'vitest';
import { MUTATIONS } from './mutations.ts';
import { simulate } from './simulation.ts';

/** A planted fault has to show within so many seeds. */
const MAX_SEEDS = 40;

describe('the simulation', () => {
  it.each(MUTATIONS.map((mutation) => [mutation.name, mutation] as const))(
    'catches a planted fault: %s',
    async (_, mutation) => {
      let caught: readonly string[] = [];
      for (let seed = 1; seed <= MAX_SEEDS && caught.length === 0; seed++) {
        caught = (await simulate({ seed, mutation })).violations;
        const { violations } = await simulate({ seed, faults: mutation.faults });
        expect(violations, `the real handlers, seed ${seed}`).toEqual([]);
      }
      expect(caught).not.toEqual([]);
    },
  );
});
