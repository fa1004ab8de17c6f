import { describe, expect, it } from 'vitest';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { latestOnly } from '../../shared/runtime/latest-only.ts';
import { newestVersions } from '../../shared/runtime/newest-versions.ts';
import { oneAtATime } from '../../shared/runtime/one-at-a-time.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Tasks that end when the test says so. */
function tasks() {
  const started: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  const task = (name: string) => () => {
    started.push(name);
    const end = Promise.withResolvers<string>();
    ends.set(name, end);
    return end.promise;
  };
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    started,
    task,
    turn,
    async end(name: string) {
      ends.get(name)?.resolve(`${name} done`);
      await turn();
    },
    async fail(name: string) {
      ends.get(name)?.reject(new Error(name));
      await turn();
    },
  };
}

describe('latestOnly', () => {
  it('runs the first and the last of those that come meanwhile', async () => {
    const { started, task, turn, end } = tasks();
    const run = latestOnly(new VirtualClock());
    const results = ['a', 'b', 'c', 'd'].map((name) => run('key', task(name)));
    await turn();
    expect(started).toEqual(['a']);
    await end('a');
    expect(started).toEqual(['a', 'd']);
    await end('d');
    expect(await Promise.all(results)).toEqual(['a done', undefined, undefined, 'd done']);
  });

  it('keeps keys apart, goes on after a failure, and forgets a key at rest', async () => {
    const { started, task, turn, end, fail } = tasks();
    const run = latestOnly(new VirtualClock());
    const first = run('key', task('a'));
    const second = run('key', task('b'));
    const other = run('other', task('c'));
    await turn();
    expect(started).toEqual(['a', 'c']);
    await Promise.all([expect(first).rejects.toThrow('a'), fail('a')]);
    expect(started).toEqual(['a', 'c', 'b']);
    await end('b');
    await end('c');
    expect([await second, await other]).toEqual(['b done', 'c done']);
    void run('key', task('d'));
    await turn();
    expect(started.at(-1)).toBe('d');
  });
});

describe('latestOnly, where a task may wait', () => {
  it('runs the last of those that came meanwhile, at the time of the first', async () => {
    const clock = new VirtualClock();
    const run = latestOnly(clock);
    const ranAt: [string, number][] = [];
    const task = (name: string) => async () => {
      ranAt.push([name, clock.monotonicMs()]);
    };
    for (const name of ['a', 'b', 'c', 'd']) {
      void run('key', task(name), 500);
      await clock.advance(150);
    }
    await clock.advance(1_000);
    void run('key', task('e'), 500);
    await clock.advance(1_000);
    expect(ranAt).toEqual([
      ['d', 500],
      ['e', 2_100],
    ]);
  });

  it('lets nobody wait behind one that cannot', async () => {
    const clock = new VirtualClock();
    const run = latestOnly(clock);
    const ranAt: [string, number][] = [];
    const task = (name: string) => async () => {
      ranAt.push([name, clock.monotonicMs()]);
    };
    void run('key', task('a'), 500);
    await clock.advance(100);
    void run('key', task('b'));
    await clock.advance(1_000);
    expect(ranAt).toEqual([['b', 100]]);
  });
});

describe('oneAtATime', () => {
  it('runs all tasks of a key in the order of the calls, whatever became of those before', async () => {
    const { started, task, turn, end, fail } = tasks();
    const run = oneAtATime();
    const first = run('key', task('a'));
    const second = run('key', task('b'));
    const third = run('key', task('c'));
    const other = run('other', task('d'));
    expect(started).toEqual(['a', 'd']);
    await Promise.all([expect(first).rejects.toThrow('a'), fail('a')]);
    await turn();
    expect(started).toEqual(['a', 'd', 'b']);
    await end('b');
    await turn();
    await end('c');
    await end('d');
    expect([await second, await third, await other]).toEqual(['b done', 'c done', 'd done']);
  });
});

describe('BoundedMap', () => {
  it('forgets the oldest; a key that is set again is the youngest', () => {
    const map = new BoundedMap<string, number>(2);
    map.set('a', 1).set('b', 2).set('a', 3).set('c', 4);
    expect([...map]).toEqual([
      ['a', 3],
      ['c', 4],
    ]);
  });
});

describe('newestVersions', () => {
  const object = (uid: string, resourceVersion: string) => ({
    metadata: { namespace: 'n', name: 'x', uid, resourceVersion },
  });

  it('compares resource versions as integers, of one object only', () => {
    const versions = newestVersions();
    expect([versions.cover(object('a', '9')), versions.supersede(object('a', '9'))]).toEqual([false, false]);
    versions.note(object('a', '10'));
    versions.note(object('a', '9'));
    expect(['9', '10', '11'].map((version) => versions.cover(object('a', version)))).toEqual([true, true, false]);
    expect(['9', '10', '11'].map((version) => versions.supersede(object('a', version)))).toEqual([true, false, false]);
    expect(versions.cover(object('b', '9'))).toBe(false);
  });
});
