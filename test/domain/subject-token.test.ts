import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileTransform, partitionOf, subjectMatches } from '../../shared/domain/subject-pattern.ts';
import { decodeToken, encodeToken, endsWithNames } from '../../shared/domain/subject-token.ts';
import { observationSubject, observationsFilter, tunnelStateKey } from '../../shared/domain/subjects.ts';
import { PARTITIONS, STREAMS } from '../../shared/domain/topology.ts';

const names = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((name) => name.isWellFormed());

describe('tokens of subjects and keys', () => {
  it('are reversible, one token, and of characters that subjects, filters and KV keys allow', () => {
    fc.assert(
      fc.property(names, (name) => {
        const token = encodeToken(name);
        expect(token).toMatch(/^[A-Za-z0-9_=-]+$/);
        expect(decodeToken(token)).toBe(name);
      }),
    );
  });

  it('differ where the names do, whatever is between them', () => {
    const tunnels = fc.tuple(names, names, names);
    fc.assert(
      fc.property(tunnels, tunnels, ([n1, c1, i1], [n2, c2, i2]) => {
        const first = tunnelStateKey({ namespace: n1, name: c1 }, i1);
        const second = tunnelStateKey({ namespace: n2, name: c2 }, i2);
        expect(first === second).toBe(n1 === n2 && c1 === c2 && i1 === i2);
      }),
    );
  });

  it('are told at the end of a subject, and no others', () => {
    fc.assert(
      fc.property(names, names, names, names, (namespace, name, id, other) => {
        const subject = observationSubject({ namespace, name }, id);
        expect(endsWithNames(subject, [namespace, name, id])).toBe(true);
        expect(endsWithNames(subject, [namespace, name, other])).toBe(other === id);
        expect(endsWithNames(subject, [namespace, other, id])).toBe(other === name);
        expect(endsWithNames(subject, [namespace, name, `${id}x`])).toBe(false);
        expect(endsWithNames(encodeToken(id), [id])).toBe(false); // nothing before it: no subject of ours
      }),
    );
    expect(endsWithNames('observations.0.a.b.c', ['a', 'b', ''])).toBe(false);
    expect(endsWithNames('c', ['a', 'b', 'c'])).toBe(false);
  });

  it.each(['a.b', '=4', '=zz', '=2e', 'a b'])('refuse what is none: %j', (token) => {
    expect(() => decodeToken(token)).toThrow(/subject token/);
  });

  it('store a tunnel where the filter of its Connection finds it, all tunnels of one in one partition', () => {
    const { transform } = STREAMS.find(({ name }) => name === 'OBSERVATIONS') ?? {};
    if (transform === undefined) throw new Error('OBSERVATIONS has no transform');
    const store = compileTransform(transform);
    fc.assert(
      fc.property(names, names, names, names, (namespace, name, one, another) => {
        const ref = { namespace, name };
        const stored = [one, another].map((id) => store(observationSubject(ref, id)) ?? '');
        for (const subject of stored) expect(subjectMatches(observationsFilter(ref), subject)).toBe(true);
        expect(stored[0]?.split('.')[1]).toBe(stored[1]?.split('.')[1]);
      }),
    );
  });

  it('fall into half of the partitions where namespace and name end alike, as those of Liqo do', () => {
    const partitions = (refOf: (n: number) => readonly [string, string]) =>
      new Set(Array.from({ length: 1_000 }, (_, n) => partitionOf(PARTITIONS, ...refOf(n)))).size;
    expect(partitions((n) => [`liqo-tenant-${n}`, `gw-${n}`])).toBe(PARTITIONS / 2);
    expect(partitions((n) => [`liqo-tenant-${n}`, `gw-${n * 7 + 1}`])).toBe(PARTITIONS);
  });
});
