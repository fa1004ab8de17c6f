import { describe, expect, it } from 'vitest';
import { grown, type Holdings } from './holdings.ts';

const held = (pid: number, sockets: number, residentMib: number, name = 'tunnel-status'): Holdings => ({
  ...{ name, pid, sockets, residentMib },
});

describe('grown', () => {
  it('is a process that holds far more than it did, by its pid', () => {
    const before = [held(1, 4, 400), held(2, 4, 100)];
    expect(grown(before, [held(2, 4, 300), held(1, 4, 400)])).toEqual(['tunnel-status 2: 100 MiB became 300']);
    expect(grown(before, [held(1, 9, 400)])).toEqual(['tunnel-status 1: 4 sockets became 9']);
    expect(grown(before, [held(1, 5, 500), held(2, 6, 200)])).toEqual([]);
  });

  it('holds one that took the place of another against the one that held most', () => {
    const before = [held(1, 4, 200), held(2, 4, 100)];
    expect(grown(before, [held(3, 4, 300)])).toEqual([]);
    expect(grown(before, [held(3, 4, 400)])).toEqual(['tunnel-status 3: 200 MiB became 400']);
    expect(grown(before, [held(3, 4, 400, 'another')])).toEqual([]);
  });

  it('grants a server a call of each process', () => {
    expect(grown([held(1, 10, 50, 'nats-server')], [held(1, 14, 50, 'nats-server')])).toHaveLength(1);
    const others = Array.from({ length: 9 }, (_, at) => held(at + 2, 1, 1));
    expect(grown([held(1, 10, 50, 'nats-server')], [held(1, 14, 50, 'nats-server'), ...others])).toEqual([]);
  });
});
