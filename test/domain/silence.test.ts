import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeHidden, judgeSilence, type LastWord } from '../../shared/domain/silence.ts';

const SILENT_AFTER_MS = 30_000;
const words: fc.Arbitrary<LastWord[]> = fc.array(
  fc.record({
    kind: fc.constantFrom('pong', 'miss', 'down', 'unmonitored', 'invalid', 'listed', 'unlisted', 'silent'),
    gatewayEpoch: fc.integer({ min: 1, max: 9 }),
    storedAtUnixMs: fc.integer({ min: 1, max: 200_000 }),
  }),
  { maxLength: 6 },
);
const epochs = fc.nat(9);
const dues = fc.record({ dueAtUnixMs: fc.integer({ min: 100_000, max: 200_000 }), lateMs: fc.nat(5_000) });

describe('judging silence', () => {
  it('never finds a gateway silent that said something within the delay, nor by a late timer, nor in an outage', () => {
    fc.assert(
      fc.property(dues, words, epochs, fc.boolean(), ({ dueAtUnixMs, lateMs }, lastWords, acceptedEpoch, wasAway) => {
        const storedAtUnixMs = dueAtUnixMs + lateMs;
        const known = { lastWords, acceptedEpoch };
        const { kind } = judgeSilence({ dueAtUnixMs, storedAtUnixMs }, known, SILENT_AFTER_MS, wasAway);
        const counts = Math.max(acceptedEpoch, ...lastWords.map(({ gatewayEpoch }) => gatewayEpoch));
        const spoke = lastWords.some(
          (word) =>
            (word.kind === 'invalid' || word.gatewayEpoch === counts) &&
            word.kind !== 'silent' &&
            word.kind !== 'unlisted' &&
            storedAtUnixMs - word.storedAtUnixMs < SILENT_AFTER_MS,
        );
        if (kind === 'silent' || kind === 'hidden')
          expect([spoke, wasAway, lateMs > 2_000]).toEqual([false, false, false]);
        else expect(spoke || wasAway || lateMs > 2_000).toBe(true);
      }),
    );
  });

  it('always arms the next timer ahead, at most one delay', () => {
    fc.assert(
      fc.property(dues, words, epochs, fc.boolean(), ({ dueAtUnixMs, lateMs }, lastWords, acceptedEpoch, wasAway) => {
        const now = dueAtUnixMs + lateMs;
        const past = lastWords.filter(({ storedAtUnixMs }) => storedAtUnixMs <= now);
        const known = { lastWords: past, acceptedEpoch };
        const judgement = judgeSilence({ dueAtUnixMs, storedAtUnixMs: now }, known, SILENT_AFTER_MS, wasAway);
        const { nextDueAtUnixMs } = judgement.kind === 'hidden' ? judgement.silence : judgement;
        expect(nextDueAtUnixMs).toBeGreaterThan(now);
        expect(nextDueAtUnixMs).toBeLessThanOrEqual(now + SILENT_AFTER_MS);
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
    const known = { lastWords, acceptedEpoch: 3 };
    expect(judgeSilence(due, known, SILENT_AFTER_MS, false)).toEqual({
      ...{ kind: 'silent', gatewayEpoch: 3, sinceUnixMs: 50_000, nextDueAtUnixMs: 130_000 },
    });
    const nothing = { lastWords: [], acceptedEpoch: 0 };
    expect(judgeSilence(due, nothing, SILENT_AFTER_MS, false)).toMatchObject({ kind: 'silent', gatewayEpoch: 1 });
  });

  it('takes no word of an older run for one of the run that was accepted', () => {
    const due = { dueAtUnixMs: 100_000, storedAtUnixMs: 100_000 };
    const older = [{ kind: 'pong', gatewayEpoch: 2, storedAtUnixMs: 99_000 }];
    const judgement = judgeSilence(due, { lastWords: older, acceptedEpoch: 3 }, SILENT_AFTER_MS, false);
    expect(judgement).toEqual({
      kind: 'hidden',
      silence: { kind: 'silent', gatewayEpoch: 3, nextDueAtUnixMs: 130_000 },
    });
  });

  it('finds a hidden run silent that stood still for as long as patience lasts', () => {
    expect(judgeHidden(undefined, 7, 1_000, 40_000)).toEqual({ sequence: 7, sinceUnixMs: 1_000 });
    const before = { sequence: 7, sinceUnixMs: 1_000 };
    expect(judgeHidden(before, 8, 50_000, 40_000)).toEqual({ sequence: 8, sinceUnixMs: 50_000 });
    expect(judgeHidden(before, 7, 40_999, 40_000)).toEqual(before);
    expect(judgeHidden(before, 7, 41_000, 40_000)).toBeUndefined();
  });
});
