import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeSilence, type LastWord } from '../../shared/domain/silence.ts';

const SILENT_AFTER_MS = 30_000;
const words: fc.Arbitrary<LastWord[]> = fc.array(
  fc.record({
    kind: fc.constantFrom('pong', 'miss', 'down', 'unmonitored', 'invalid', 'listed', 'unlisted', 'silent'),
    gatewayEpoch: fc.integer({ min: 1, max: 9 }),
    storedAtUnixMs: fc.integer({ min: 1, max: 200_000 }),
  }),
  { maxLength: 6 },
);
const dues = fc.record({ dueAtUnixMs: fc.integer({ min: 100_000, max: 200_000 }), lateMs: fc.nat(5_000) });

describe('judging silence', () => {
  it('never finds a gateway silent that said something within the delay, nor by a late timer, nor in an outage', () => {
    fc.assert(
      fc.property(dues, words, fc.boolean(), ({ dueAtUnixMs, lateMs }, lastWords, wasAway) => {
        const storedAtUnixMs = dueAtUnixMs + lateMs;
        const { kind } = judgeSilence({ dueAtUnixMs, storedAtUnixMs }, lastWords, SILENT_AFTER_MS, wasAway);
        const spoke = lastWords.some(
          (word) =>
            word.kind !== 'silent' &&
            word.kind !== 'unlisted' &&
            storedAtUnixMs - word.storedAtUnixMs < SILENT_AFTER_MS,
        );
        if (kind === 'silent') expect([spoke, wasAway, lateMs > 2_000]).toEqual([false, false, false]);
        else expect(spoke || wasAway || lateMs > 2_000).toBe(true);
      }),
    );
  });

  it('always arms the next timer ahead, at most one delay', () => {
    fc.assert(
      fc.property(dues, words, fc.boolean(), ({ dueAtUnixMs, lateMs }, lastWords, wasAway) => {
        const now = dueAtUnixMs + lateMs;
        const past = lastWords.filter(({ storedAtUnixMs }) => storedAtUnixMs <= now);
        const judgement = judgeSilence({ dueAtUnixMs, storedAtUnixMs: now }, past, SILENT_AFTER_MS, wasAway);
        expect(judgement.nextDueAtUnixMs).toBeGreaterThan(now);
        expect(judgement.nextDueAtUnixMs).toBeLessThanOrEqual(now + SILENT_AFTER_MS);
      }),
    );
  });

  it('speaks of the newest run that is known, since its last word', () => {
    const lastWords = [
      { kind: 'pong', gatewayEpoch: 3, storedAtUnixMs: 50_000 },
      { kind: 'pong', gatewayEpoch: 2, storedAtUnixMs: 40_000 },
      { kind: 'silent', gatewayEpoch: 3, storedAtUnixMs: 99_000 },
    ];
    const due = { dueAtUnixMs: 100_000, storedAtUnixMs: 100_000 };
    expect(judgeSilence(due, lastWords, SILENT_AFTER_MS, false)).toEqual({
      ...{ kind: 'silent', gatewayEpoch: 3, sinceUnixMs: 50_000, nextDueAtUnixMs: 130_000 },
    });
    expect(judgeSilence(due, [], SILENT_AFTER_MS, false)).toMatchObject({ kind: 'silent', gatewayEpoch: 1 });
  });
});
