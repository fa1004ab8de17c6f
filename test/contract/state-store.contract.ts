import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tunnelStateKey } from '../../shared/domain/subjects.ts';
import type { StateStore } from '../../shared/ports/state-store.ts';

export type StateStoreHarness = AsyncDisposable & { readonly store: StateStore };

export function stateStoreContract(name: string, start: () => Promise<StateStoreHarness>): void {
  describe(name, () => {
    let harness: StateStoreHarness;
    let store: StateStore;
    let keys = 0;
    const freshKey = () => tunnelStateKey({ namespace: 'liqo.tenant', name: `gw-${++keys}` }, 'liqo-tunnel');

    beforeAll(async () => {
      harness = await start();
      store = harness.store;
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    test('gives what was put, with its revision', async () => {
      const key = freshKey();
      expect(await store.get(key)).toBeUndefined();
      const value = { value: 'Connected', sequence: 7, text: 'Grüße', nested: { list: [1, null] } };
      const revision = await store.put(key, value);
      expect(await store.get(key)).toEqual({ value, revision });
    });

    test('writes without a revision whatever is there, and revisions grow', async () => {
      const key = freshKey();
      const first = await store.put(key, 1);
      const second = await store.put(key, 2);
      expect(second).toBeGreaterThan(first ?? Number.POSITIVE_INFINITY);
      expect((await store.get(key))?.value).toBe(2);
    });

    test('with revision 0 only the first creates', async () => {
      const key = freshKey();
      expect(await store.put(key, 'first', 0)).toBeGreaterThan(0);
      expect(await store.put(key, 'second', 0)).toBeUndefined();
      expect((await store.get(key))?.value).toBe('first');
    });

    test('of writers at the same revision one wins', async () => {
      const key = freshKey();
      const revision = await store.put(key, 'start');
      const results = await Promise.all([1, 2, 3, 4].map((writer) => store.put(key, writer, revision)));
      const winners = results.flatMap((result, index) => (result === undefined ? [] : [index + 1]));
      expect(winners.length).toBe(1);
      expect((await store.get(key))?.value).toBe(winners[0]);
    });

    test('writes nothing at a revision that the key has left behind or never had', async () => {
      const key = freshKey();
      const old = await store.put(key, 1);
      await store.put(key, 2);
      expect(await store.put(key, 3, old)).toBeUndefined();
      expect(await store.put(freshKey(), 'none', 12_345)).toBeUndefined();
      expect((await store.get(key))?.value).toBe(2);
    });

    test('forgets what is deleted, and creates it anew', async () => {
      const key = freshKey();
      await store.put(key, 1);
      await store.delete(key);
      expect(await store.get(key)).toBeUndefined();
      expect(await store.put(key, 2, 0)).toBeGreaterThan(0);
      expect((await store.get(key))?.value).toBe(2);
    });

    test('deletes what does not exist', async () => {
      await store.delete(freshKey());
    });

    test('keeps keys apart and a caller cannot change what is stored', async () => {
      const [one, two] = [freshKey(), freshKey()];
      const value = { list: [1] };
      await store.put(one, value);
      await store.put(two, { list: [2] });
      value.list.push(99);
      expect((await store.get(one))?.value).toEqual({ list: [1] });
    });
  });
}
