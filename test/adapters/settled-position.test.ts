import { describe, expect, it } from 'vitest';
import { SettledPosition } from '../../shared/adapters/settled-position.ts';

function positionOf(maxAckPending: number, taken: readonly number[]): SettledPosition {
  const position = new SettledPosition(maxAckPending);
  for (const sequence of taken) position.taken(sequence);
  return position;
}

describe('SettledPosition', () => {
  it('is unknown until something is settled', () => {
    const position = positionOf(4, [1]);
    position.givenBack(1);
    expect(position.current).toBeUndefined();
  });

  it('stays before what is in work', () => {
    const position = positionOf(4, [7, 8]);
    position.settled(8, 80);
    expect(position.current).toEqual({ streamSequence: 6, storedAtUnixMs: 80 });
    position.settled(7, 70);
    expect(position.current).toEqual({ streamSequence: 8, storedAtUnixMs: 80 });
  });

  it('stays before what awaits its retry, through the retry, until it is settled', () => {
    const position = positionOf(4, [1, 2, 3]);
    position.givenBack(2);
    position.settled(1, 10);
    position.settled(3, 30);
    expect(position.current?.streamSequence).toBe(1);
    position.taken(2);
    expect(position.current?.streamSequence).toBe(1);
    position.settled(2, 20);
    expect(position.current).toEqual({ streamSequence: 3, storedAtUnixMs: 30 });
  });

  it('forgets what was given back first where more were than the server leaves unsettled', () => {
    const position = positionOf(2, [1, 2, 3, 4]);
    position.settled(4, 40);
    for (const sequence of [1, 2, 3]) position.givenBack(sequence);
    expect(position.current?.streamSequence).toBe(1);
  });
});
