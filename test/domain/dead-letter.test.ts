import { describe, expect, it } from 'vitest';
import { deadLetterOf, letterOf, retriedIn } from '../../shared/domain/dead-letter.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function stored(subject: string, data: unknown) {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return { subject, headers: {}, data: bytes(text), streamSequence: 7, storedAt: '2026-01-02T00:00:00Z' };
}

const LETTER = deadLetterOf(
  { subject: 'changes.a.b.c', headers: {}, data: bytes('{}'), stream: 'CHANGES', streamSequence: 3 },
  { function: 'connection-watch', reason: 'Poisonous', message: 'a bug', at: '2026-01-01T00:00:00Z' },
);
const ADVISORY_SUBJECT = '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.CHANGES.c';
const ADVISORY = {
  ...{ type: 'io.nats.jetstream.advisory.v1.max_deliver', stream: 'CHANGES', consumer: 'c', stream_seq: 3 },
  ...{ deliveries: 20, timestamp: '2026-01-01T00:00:00Z' },
};

describe('letterOf', () => {
  it('reads a letter and an advisory', () => {
    const place = { sequence: 7, stream: 'CHANGES', streamSequence: 3, at: '2026-01-01T00:00:00Z' };
    expect(letterOf(stored('dead.connection-watch', LETTER))).toEqual({
      ...{ ...place, function: 'connection-watch', reason: 'Poisonous', message: 'a bug', letter: LETTER },
    });
    expect(letterOf(stored(ADVISORY_SUBJECT, ADVISORY))).toEqual({
      ...{ ...place, function: 'c', reason: 'MaxDeliveries', message: 'handed out 20 times and never settled' },
    });
  });

  it('leaves out an advisory about a stream that is none of ours', () => {
    const subject = '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.c';
    expect(letterOf(stored(subject, { ...ADVISORY, stream: 'ORDERS' }))).toBeUndefined();
  });

  it.each([
    ['dead.x', 'junk{', 'on dead.x: no JSON: '],
    ['dead.x', '', 'on dead.x: no JSON: '],
    ['dead.x', null, 'on dead.x: want an object, got null'],
    ['dead.x', 7, 'on dead.x: want an object, got 7'],
    ['dead.x', [], 'on dead.x: missing or of a wrong type: function, '],
    ['dead.x', { ...LETTER, headers: null, at: 1 }, 'on dead.x: missing or of a wrong type: headers, at'],
    ['dead.x', { ...LETTER, stream: 'ORDERS' }, 'on dead.x: there is no stream "ORDERS"'],
    [
      ADVISORY_SUBJECT,
      { ...ADVISORY, stream_seq: '3' },
      `on ${ADVISORY_SUBJECT}: missing or of a wrong type: stream_seq`,
    ],
  ])('says of %s %j that it is no letter, where it lies and why', (subject, data, message) => {
    expect(letterOf(stored(subject, data))).toEqual({
      ...{ sequence: 7, function: '-', reason: 'Unreadable', message: expect.stringContaining(message) },
      ...{ stream: 'DEAD_LETTERS', streamSequence: 7, at: '2026-01-02T00:00:00Z', isUnreadable: true },
    });
  });
});

describe('retriedIn', () => {
  it.each([
    ['{"sequence":4}', 4],
    ['null', undefined],
    ['junk{', undefined],
    ['{"sequence":"4"}', undefined],
  ])('finds in %s the letter %j', (text, sequence) => {
    expect(retriedIn(bytes(text))).toBe(sequence);
  });
});
