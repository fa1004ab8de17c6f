import { expect, it } from 'vitest';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { observationsFilter } from '../../shared/domain/subjects.ts';
import type { EventBus, StoredMessage } from '../../shared/ports/event-bus.ts';
import type { EventHistory, HistoryQuery } from '../../shared/ports/event-history.ts';

export type HistoryHarness = AsyncDisposable & {
  readonly bus: EventBus;
  readonly history: EventHistory;
  /** Lets time pass, so that what is stored next has another time. */
  readonly wait: (durationMs: number) => Promise<void>;
};

const A = { namespace: 'ns', name: 'gw-a' };
const B = { namespace: 'ns.2', name: 'gw-b' };

async function publish(bus: EventBus, ref: typeof A, from: number, count: number): Promise<void> {
  const subject = `keepalive.${ref.namespace.replace('.', '=2E')}.${ref.name}.liqo-tunnel`;
  const all = Array.from({ length: count }, (_, index) => {
    const id = `${ref.name}.${from + index}`;
    return bus.publish(
      encodeCloudEvent(subject, { id, source: '/test', type: 'test', data: { number: from + index } }),
    );
  });
  await Promise.all(all);
}

async function readAll(history: EventHistory, query: Omit<HistoryQuery, 'stream'>): Promise<StoredMessage[]> {
  const messages: StoredMessage[] = [];
  const never = new AbortController().signal;
  for await (const batch of history.read({ stream: 'OBSERVATIONS', ...query }, never)) messages.push(...batch);
  return messages;
}

/** What every history promises, embedded or real. */
export function eventHistoryContract(start: () => Promise<HistoryHarness>): void {
  it('gives what a stream keeps, in order, as it was stored, from any sequence on', async () => {
    await using world = await start();
    expect(await world.history.bounds('OBSERVATIONS')).toBeUndefined();
    expect(await readAll(world.history, { from: { sequence: 1 } })).toEqual([]);
    // More than two batches, and in pieces that a client may have under way at once.
    for (let from = 0; from < 2_500; from += 250) await publish(world.bus, A, from, 250);

    const all = await readAll(world.history, { from: { sequence: 1 } });
    expect(all.map(({ streamSequence }) => streamSequence)).toEqual(
      Array.from({ length: 2_500 }, (_, index) => index + 1),
    );
    expect(new Set(all.map(({ headers }) => headers['ce-id'])).size).toBe(2_500);
    expect(all[0]).toMatchObject({
      ...{ stream: 'OBSERVATIONS', subject: expect.stringMatching(/^observations\.\d+\.ns\.gw-a\.liqo-tunnel$/) },
      headers: { 'ce-source': '/test', 'Nats-Msg-Id': expect.any(String) },
    });
    expect(Object.keys(all[0]?.headers ?? {}).filter((name) => name.startsWith('Nats-'))).toEqual(['Nats-Msg-Id']);
    const bounds = await world.history.bounds('OBSERVATIONS');
    expect(bounds).toMatchObject({ first: { sequence: 1 }, last: { sequence: 2_500 } });
    expect(bounds?.last.storedAtUnixMs).toBe(all.at(-1)?.storedAtUnixMs);

    const late = await readAll(world.history, { from: { sequence: 2_400 } });
    expect(late.map(({ streamSequence }) => streamSequence)).toEqual(
      Array.from({ length: 101 }, (_, index) => index + 2_400),
    );
    expect(await readAll(world.history, { from: { sequence: 2_501 } })).toEqual([]);
  });

  it('begins at a time, and picks subjects', async () => {
    await using world = await start();
    await publish(world.bus, A, 0, 3);
    await world.wait(50);
    await publish(world.bus, B, 0, 3);
    const all = await readAll(world.history, { from: { sequence: 1 } });
    const unixMs = all.find(({ subject }) => subject.includes('gw-b'))?.storedAtUnixMs as number;
    expect((await readAll(world.history, { from: { unixMs } })).map(({ streamSequence }) => streamSequence)).toEqual([
      4, 5, 6,
    ]);
    expect(await readAll(world.history, { from: { unixMs: unixMs + 60_000 } })).toEqual([]);
    const picked = await readAll(world.history, { from: { sequence: 1 }, filter: observationsFilter(B) });
    expect(picked.map(({ streamSequence }) => streamSequence)).toEqual([4, 5, 6]);
  });

  it('goes on behind the last message without a gap or a repeat, while others write', async () => {
    await using world = await start();
    const seen: number[] = [];
    const writing = (async () => {
      for (let from = 0; from < 1_500; from += 50) {
        await publish(world.bus, A, from, 50);
        await world.wait(1);
      }
    })();
    for (let from = 1; seen.length < 1_500; from = (seen.at(-1) ?? 0) + 1) {
      for (const { streamSequence } of await readAll(world.history, { from: { sequence: from } }))
        seen.push(streamSequence);
      await world.wait(1);
    }
    await writing;
    expect(seen).toEqual(Array.from({ length: 1_500 }, (_, index) => index + 1));
  });

  it('stops when it is told to', async () => {
    await using world = await start();
    await publish(world.bus, A, 0, 10);
    const aborted = AbortSignal.abort();
    const batches: unknown[] = [];
    for await (const batch of world.history.read({ stream: 'OBSERVATIONS', from: { sequence: 1 } }, aborted))
      batches.push(batch);
    expect(batches).toEqual([]);
  });
}
