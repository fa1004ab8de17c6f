import { describe, expect, it } from 'vitest';
import type { ConsumerSpec } from '../../shared/domain/topology.ts';
import type { Delivery, StoredMessage } from '../../shared/ports/event-bus.ts';
import { previousEvents } from '../../shared/runtime/previous-events.ts';

const PARTITION: ConsumerSpec = {
  durable: 'test-0',
  stream: 'OBSERVATIONS',
  filterSubjects: ['observations.0.*.*.*'],
  maxAckPending: 1,
  ackWaitMs: 5_000,
  maxDeliver: 20,
};

/** A stream of messages `a1 b2 a3 …`, subject and sequence; an `!` makes one invalid. */
function streamOf(text: string, spec = PARTITION) {
  const stored = text.split(' ').map((word, index): StoredMessage => {
    const id = `${word[0]}${index + 1}`;
    const headers = { id, ...(word.includes('!') ? { invalid: 'yes' } : {}) };
    const place = { stream: 'OBSERVATIONS', streamSequence: index + 1, storedAtUnixMs: 0 } as const;
    return { ...place, subject: `observations.0.ns.gw.${word[0]}`, headers, data: new Uint8Array() };
  });
  const reads: string[] = [];
  const bus = {
    async lastMessages(_stream: string, filter: string, before = Number.POSITIVE_INFINITY) {
      reads.push(filter);
      const matching = stored.filter((message) => message.streamSequence < before);
      const last = new Map(matching.map((message) => [message.subject, message]));
      return [...last.values()].filter(({ subject }) => filter.includes('*') || subject === filter);
    },
  };
  const previousOf = previousEvents(
    bus,
    ({ headers }) =>
      headers.invalid === undefined
        ? { event: { id: headers.id ?? '', source: '/test', type: 'test', data: {} } }
        : { error: { reason: 'Malformed', message: 'planted' } },
    spec,
  );
  /** Takes a delivery, and finds what came before it if it `asks`. */
  const deliver = async (sequence: number, { uninterrupted = true, asks = true } = {}) => {
    const delivery = { ...stored[sequence - 1], deliverySequence: sequence, deliveryCount: 1, pending: 0 } as Delivery;
    const previous = previousOf(delivery, uninterrupted);
    return asks ? (await previous())?.id : undefined;
  };
  return { deliver, reads };
}

describe('the event before another', () => {
  it('is read once for all subjects by who comes to a partition, and told of each only until one was handled', async () => {
    const { deliver, reads } = streamOf('a b c a b a');
    expect(await deliver(4)).toBe('a1');
    expect(await deliver(5)).toBe('b2');
    expect(reads).toEqual(['observations.0.*.*.*']);
    expect(await deliver(6)).toBe('a4');
    expect(reads).toEqual(['observations.0.*.*.*', 'observations.0.ns.gw.a']);
  });

  it('is looked up again for each subject once another replica was there', async () => {
    const { deliver, reads } = streamOf('a b a b b');
    expect(await deliver(3)).toBe('a1');
    expect(await deliver(5, { uninterrupted: false })).toBe('b4');
    expect(reads).toEqual(['observations.0.*.*.*', 'observations.0.ns.gw.b']);
  });

  it('costs nothing where nobody asks', async () => {
    const { deliver, reads } = streamOf('a a a');
    for (const sequence of [1, 2, 3]) await deliver(sequence, { asks: false });
    expect(reads).toEqual([]);
  });

  it('is none for the first of a subject', async () => {
    const { deliver } = streamOf('a b');
    expect(await deliver(1)).toBeUndefined();
    expect(await deliver(2)).toBeUndefined();
  });

  it('is a valid one: invalid ones are looked past', async () => {
    const { deliver } = streamOf('a a! a! a b! b');
    expect(await deliver(4)).toBe('a1');
    expect(await deliver(6)).toBeUndefined();
  });

  it('is looked up one by one where several events of a subject may be in work', async () => {
    const { deliver, reads } = streamOf('a b a b', { ...PARTITION, maxAckPending: 64 });
    expect(await deliver(3)).toBe('a1');
    expect(await deliver(4)).toBe('b2');
    expect(reads).toEqual(['observations.0.ns.gw.a', 'observations.0.ns.gw.b']);
  });
});
