import { describe, expect, test } from 'vitest';
import { compileTransform, hasWildcard, partitionOf, subjectMatches } from '../../shared/domain/subject-pattern.ts';
import { STREAMS } from '../../shared/domain/topology.ts';

describe('subjectMatches', () => {
  test.each([
    ['a.b.c', 'a.b.c', true],
    ['a.b.c', 'a.b', false],
    ['a.b', 'a.b.c', false],
    ['a.*.c', 'a.b.c', true],
    ['a.*.c', 'a.b.b.c', false],
    ['*', 'a', true],
    ['*', 'a.b', false],
    ['a.*', 'a', false],
    ['a.>', 'a.b.c', true],
    ['a.>', 'a', false],
    ['>', 'a', true],
    ['a.b*', 'a.bc', false],
    ['live.*.*.*', 'live.ns.=2E.liqo-tunnel', true],
  ])('%s on %s: %s', (pattern, subject, matches) => {
    expect(subjectMatches(pattern, subject)).toBe(matches);
  });
});

test('a wildcard is a whole token', () => {
  expect(['a.*', '*.a', 'a.>'].map(hasWildcard)).toEqual([true, true, true]);
  expect(['a.b', 'a*.b', 'a.>b'].map(hasWildcard)).toEqual([false, false, false]);
});

describe('compileTransform', () => {
  test('puts an observation into its partition, and its copy on the live subject', () => {
    const observations = STREAMS.find(({ name }) => name === 'OBSERVATIONS');
    const store = compileTransform(observations?.transform ?? { source: '', destination: '' });
    const republish = compileTransform(observations?.republish ?? { source: '', destination: '' });
    const partition = partitionOf(16, 'liqo-tenant-a', 'gw-a');
    const stored = store('keepalive.liqo-tenant-a.gw-a.liqo-tunnel');
    expect(stored).toBe(`observations.${partition}.liqo-tenant-a.gw-a.liqo-tunnel`);
    expect(republish(stored ?? '')).toBe('live.liqo-tenant-a.gw-a.liqo-tunnel');
  });

  test('leaves other subjects alone', () => {
    expect(compileTransform({ source: 'a.*', destination: 'b.{{wildcard(1)}}' })('c.d')).toBeUndefined();
  });

  test.each([
    [{ source: 'a.*', destination: 'b.{{wildcard(2)}}' }, 'wildcard 2'],
    [{ source: 'a.*', destination: 'b.{{partition(4,3)}}' }, 'wildcard 3'],
    [{ source: 'a.*', destination: 'b.{{split(1,-)}}' }, '{{split(1,-)}}'],
  ])('refuses %o', (transform, words) => {
    expect(() => compileTransform(transform)).toThrow(words);
  });
});

test('partitions are FNV-1a, 32 bit, over the tokens', () => {
  // Vectors of the reference implementation: http://www.isthe.com/chongo/tech/comp/fnv/
  expect(partitionOf(2 ** 32, '')).toBe(0x811c9dc5);
  expect(partitionOf(2 ** 32, 'a')).toBe(0xe40c292c);
  expect(partitionOf(2 ** 32, 'foo', 'bar')).toBe(0xbf9cf968);
});
