import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type BusMessage, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { partitionOf } from '../../shared/domain/subject-pattern.ts';
import { encodeToken } from '../../shared/domain/subject-token.ts';
import {
  changeSubject,
  decisionSubject,
  dueSubject,
  gatewaySubject,
  observationSubject,
  observationsFilter,
  timerSubject,
} from '../../shared/domain/subjects.ts';
import { type ConsumerSpec, PARTITIONS } from '../../shared/domain/topology.ts';
import type { BusError, Delivery, EventBus, Settlement } from '../../shared/ports/event-bus.ts';
import type { LiveFeed, LiveMessage } from '../../shared/ports/live-feed.ts';

export type Bus = EventBus & LiveFeed;

/** What the suite needs of an implementation. */
export type BusHarness = AsyncDisposable & {
  /** Another client of the same server, as another replica has one. */
  connect(): Promise<Bus>;
  /** Lets this much time pass on the server's clock. */
  wait(durationMs: number): Promise<void>;
  /** Lets time pass until the condition holds; fails loudly where it never does. */
  until(condition: () => boolean | Promise<boolean>, what: string): Promise<void>;
  unixMs(): number;
  deleteConsumer(consumer: ConsumerSpec): Promise<void>;
};

const ACK: Settlement = { kind: 'ack' };
const ACK_WAIT_MS = 600;

export function eventBusContract(name: string, start: () => Promise<BusHarness>): void {
  describe(name, () => {
    let harness: BusHarness;
    let bus: Bus;
    let cases = 0;
    let events = 0;

    beforeAll(async () => {
      harness = await start();
      bus = await harness.connect();
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    /** Names of its own for each test: streams are shared. */
    const fresh = () => ({ namespace: `liqo.tenant-${++cases}`, name: `gw-${cases}` });
    const event = (subject: string, data: unknown = {}, id = `event-${++events}`): BusMessage =>
      encodeCloudEvent(subject, { id, source: '/test', type: 'test', data });
    const dataOf = (message: BusMessage) => JSON.parse(new TextDecoder().decode(message.data));
    const tokensOf = (ref: { namespace: string; name: string }) => decisionSubject(ref).slice('decisions.'.length);
    const consumerOf = (filter: string, changes: Partial<ConsumerSpec> = {}): ConsumerSpec => ({
      durable: `test-${cases}`,
      stream: 'OBSERVATIONS',
      filterSubjects: [filter],
      maxAckPending: 1,
      ackWaitMs: ACK_WAIT_MS,
      maxDeliver: 20,
      ...changes,
    });
    /** Consumes into a list until disposed. */
    const collect = (
      client: Bus,
      spec: ConsumerSpec,
      handle: (delivery: Delivery, nth: number) => Settlement | Promise<Settlement> = () => ACK,
    ) => {
      const controller = new AbortController();
      const deliveries: Delivery[] = [];
      let isEnded = false;
      const ended = client
        .consume(spec, async (delivery) => handle(delivery, deliveries.push(delivery)), controller.signal)
        .finally(() => {
          isEnded = true;
        });
      const stop = async () => {
        controller.abort();
        await harness.until(() => isEnded, 'consume to end');
        await ended;
      };
      return { deliveries, stop, [Symbol.asyncDispose]: stop };
    };

    describe('publish', () => {
      test('acknowledges with stream and growing sequence', async () => {
        const subject = decisionSubject(fresh());
        const first = await bus.publish(event(subject));
        const second = await bus.publish(event(subject));
        expect(first).toMatchObject({ stream: 'DECISIONS', duplicate: false });
        expect(second.sequence).toBeGreaterThan(first.sequence);
      });

      test('drops a repeat of a message id and tells the first sequence', async () => {
        const subject = decisionSubject(fresh());
        const first = await bus.publish(event(subject, { n: 1 }, `repeat-${cases}`));
        await bus.publish(event(subject, { n: 2 }));
        const repeat = await bus.publish(event(subject, { n: 1 }, `repeat-${cases}`));
        expect(repeat).toEqual({ ...first, duplicate: true });
        expect(dataOf((await bus.lastMessages('DECISIONS', subject))[0] as BusMessage)).toEqual({ n: 2 });
      });

      test('rejects as unavailable where no stream takes the subject', async () => {
        await expect(bus.publish(event('nobody.takes.this'))).rejects.toMatchObject({
          name: 'BusError',
          code: 'unavailable',
          message: expect.stringContaining('nobody.takes.this'),
        } satisfies Partial<BusError>);
      });

      test('rejects as too large what is more than a server takes in one message, headers included', async () => {
        const subject = decisionSubject(fresh());
        const most = { ...event(subject), data: new Uint8Array(1024 * 1024) };
        const headers = { ...event(subject).headers, 'ce-source': 's'.repeat(70_000) };
        for (const message of [most, { ...event(subject), headers }]) {
          await expect(bus.publish(message)).rejects.toMatchObject({
            name: 'BusError',
            code: 'too-large',
            message: expect.stringContaining(subject),
          } satisfies Partial<BusError>);
        }
        await bus.publish(event(subject));
      });

      test('stores an observation under its partition, for every partition there is', async () => {
        const seen = new Set<number>();
        for (let i = 0; seen.size < PARTITIONS && i < 500; i++) {
          // The same name in both tokens would only ever hit every second partition (a property of FNV).
          const ref = { ...fresh(), name: `gw-${i % 7}` };
          const tokens = tokensOf(ref);
          const partition = partitionOf(PARTITIONS, ...tokens.split('.'));
          if (seen.has(partition)) continue;
          seen.add(partition);
          await bus.publish(event(observationSubject(ref, 'liqo-tunnel'), { partition }));
          const [stored] = await bus.lastMessages('OBSERVATIONS', `observations.*.${tokens}.*`);
          expect(stored?.subject).toBe(`observations.${partition}.${tokens}.liqo-tunnel`);
        }
        expect(seen.size).toBe(PARTITIONS);
      });

      test('keeps headers and bytes', async () => {
        const subject = decisionSubject(fresh());
        const message = event(subject, { text: 'Grüße, 隧道' });
        const { sequence } = await bus.publish(message);
        const before = harness.unixMs();
        const [stored] = await bus.lastMessages('DECISIONS', subject);
        expect(stored).toMatchObject({ stream: 'DECISIONS', streamSequence: sequence, subject });
        expect(stored?.headers).toMatchObject(message.headers);
        expect(Buffer.from(stored?.data ?? []).equals(message.data)).toBe(true);
        expect(Math.abs((stored?.storedAtUnixMs ?? 0) - before)).toBeLessThan(10_000);
      });

      test('has 512 in flight at once and keeps their order', async () => {
        const subject = decisionSubject(fresh());
        const acks = await Promise.all(Array.from({ length: 512 }, (_, n) => bus.publish(event(subject, { n }))));
        const sequences = acks.map(({ sequence }) => sequence);
        expect(sequences).toEqual([...sequences].sort((a, b) => a - b));
      });
    });

    describe('publishAfter', () => {
      /** A Connection with two tunnels of which something was said, as who judges it reads it. */
      const spoken = async () => {
        const ref = fresh();
        const filter = observationsFilter(ref);
        const say = (tunnel: string, data: unknown) => bus.publish(event(observationSubject(ref, tunnel), data));
        const read = async () => (await bus.lastMessages('OBSERVATIONS', filter)).map(dataOf);
        await say('liqo-tunnel', { n: 1 });
        const { sequence } = await say('liqo-tunnel1', { n: 2 });
        return { ref, last: { filter, sequence }, say, read, subject: observationSubject(ref, 'liqo-tunnel') };
      };

      test('stores the message where nothing came since, whatever came of others', async () => {
        const { last, read, subject } = await spoken();
        await bus.publish(event(observationSubject(fresh(), 'liqo-tunnel')));
        const ack = await bus.publishAfter(event(subject, { n: 3 }), last);
        expect(ack).toMatchObject({ stream: 'OBSERVATIONS', duplicate: false });
        expect(ack?.sequence).toBeGreaterThan(last.sequence);
        expect(await read()).toEqual([{ n: 2 }, { n: 3 }]);
      });

      test.each(['liqo-tunnel', 'liqo-tunnel1'])('stores nothing where something came since, of %s', async (tunnel) => {
        const { last, say, read, subject } = await spoken();
        const { sequence } = await say(tunnel, { n: 3 });
        const before = await read();
        const message = event(subject, { n: 4 });
        expect(await bus.publishAfter(message, last)).toBeUndefined();
        expect(await read()).toEqual(before);
        // It does not take the id for known.
        expect(await bus.publishAfter(message, { ...last, sequence })).toMatchObject({ duplicate: false });
      });

      test('says with 0 that there is nothing', async () => {
        const ref = fresh();
        const message = event(observationSubject(ref, 'liqo-tunnel'));
        const nothing = { filter: observationsFilter(ref), sequence: 0 };
        expect(await bus.publishAfter(message, nothing)).toMatchObject({ duplicate: false });
        expect(await bus.publishAfter(event(message.subject), nothing)).toBeUndefined();
      });

      test('tells a repeat as such by what is last now; one by what was last then is not stored either', async () => {
        const { last, say, read, subject } = await spoken();
        const message = event(subject, { n: 3 });
        const first = await bus.publishAfter(message, last);
        const { sequence } = await say('liqo-tunnel', { n: 4 });
        const repeat = await bus.publishAfter(message, { ...last, sequence });
        expect(repeat).toEqual({ ...first, duplicate: true });
        expect(await bus.publishAfter(message, last)).toBeUndefined();
        expect(await read()).toEqual([{ n: 2 }, { n: 4 }]);
      });

      test('rejects as unavailable where no stream takes the subject', async () => {
        const nothing = { filter: 'nobody.takes.this', sequence: 0 };
        await expect(bus.publishAfter(event('nobody.takes.this'), nothing)).rejects.toMatchObject({
          ...{ name: 'BusError', code: 'unavailable' },
        });
      });
    });

    describe('lastMessages', () => {
      test('gives the last of each subject that matches, by sequence', async () => {
        const ref = fresh();
        for (const [tunnel, n] of [
          ['liqo-tunnel', 1],
          ['liqo-tunnel1', 2],
          ['liqo-tunnel', 3],
        ] as const) {
          await bus.publish(event(observationSubject(ref, tunnel), { n }));
        }
        const last = await bus.lastMessages('OBSERVATIONS', `observations.*.${tokensOf(ref)}.*`);
        expect(last.map(dataOf)).toEqual([{ n: 2 }, { n: 3 }]);
        expect(last.map(({ stream }) => stream)).toEqual(['OBSERVATIONS', 'OBSERVATIONS']);
      });

      test('is empty where nothing matches, with and without wildcards', async () => {
        const ref = fresh();
        expect(await bus.lastMessages('DECISIONS', decisionSubject(ref))).toEqual([]);
        expect(await bus.lastMessages('DECISIONS', `decisions.${tokensOf(ref).split('.')[0]}.*`)).toEqual([]);
      });

      test('gives them all, however many subjects match', async () => {
        const { namespace } = fresh();
        const count = 2_500;
        const refs = Array.from({ length: count }, (_, n) => ({ namespace, name: `gw-${n}` }));
        await Promise.all(refs.map((ref, n) => bus.publish(event(decisionSubject(ref), { n }))));
        const last = await bus.lastMessages('DECISIONS', `decisions.${encodeToken(namespace)}.*`);
        expect(new Set(last.map(dataOf).map((data) => (data as { n: number }).n)).size).toBe(count);
      });

      test('keeps one announcement a gateway; sequences grow from the wall clock on', async () => {
        const ref = fresh();
        const first = await bus.publish(event(gatewaySubject(ref), { run: 1 }));
        const second = await bus.publish(event(gatewaySubject(ref), { run: 2 }));
        expect(first.sequence).toBeGreaterThan(Date.UTC(2020, 0, 1));
        expect(second.sequence).toBeGreaterThan(first.sequence);
        expect((await bus.lastMessages('GATEWAYS', gatewaySubject(ref))).map(dataOf)).toEqual([{ run: 2 }]);
      });
    });

    describe('lastMessages before another', () => {
      test('gives the last on each subject before a sequence, whatever came after or between', async () => {
        const [ref, other] = [fresh(), fresh()];
        const sequences: number[] = [];
        for (let n = 0; n < 3; n++) {
          sequences.push(
            (await bus.publish(event(observationSubject(ref, 'liqo-tunnel'), { n }, `${ref.name}-${n}`))).sequence,
          );
          await bus.publish(event(observationSubject(other, 'liqo-tunnel'), { other: n }));
        }
        const [{ subject = '' } = {}] = await bus.lastMessages('OBSERVATIONS', `observations.*.${tokensOf(ref)}.*`);
        const [first = 0, second = 0, third = 0] = sequences;
        const filter = `observations.*.${tokensOf(ref)}.*`;
        for (const on of [subject, filter]) {
          const before = await bus.lastMessages('OBSERVATIONS', on, third);
          expect(before).toMatchObject([{ stream: 'OBSERVATIONS', subject, streamSequence: second }]);
          const [{ headers, storedAtUnixMs } = { headers: {}, storedAtUnixMs: 0 }] = before;
          expect(before.map(dataOf)).toEqual([{ n: 1 }]);
          expect(headers).toMatchObject({ 'ce-id': `${ref.name}-1`, 'ce-type': 'test' });
          expect(headers).not.toHaveProperty('Nats-Sequence');
          expect(Math.abs(storedAtUnixMs - harness.unixMs())).toBeLessThan(60_000);
          expect(await bus.lastMessages('OBSERVATIONS', on, third + 1)).toMatchObject([{ streamSequence: third }]);
          expect(await bus.lastMessages('OBSERVATIONS', on, first)).toEqual([]);
          expect(await bus.lastMessages('OBSERVATIONS', on, 1)).toEqual([]);
        }
      });

      test('gives them all, however many subjects match', async () => {
        const { namespace } = fresh();
        const count = 1_500;
        const subjects = Array.from({ length: count }, (_, n) => decisionSubject({ namespace, name: `gw-${n}` }));
        for (const round of [1, 2])
          await Promise.all(subjects.map((subject) => bus.publish(event(subject, { round }))));
        const { sequence } = await bus.publish(event(decisionSubject({ namespace, name: 'later' })));
        const last = await bus.lastMessages('DECISIONS', `decisions.${encodeToken(namespace)}.*`, sequence);
        expect(last.map(dataOf)).toEqual(Array.from({ length: count }, () => ({ round: 2 })));
      });
    });

    describe('consume', () => {
      test('delivers in order over two replicas with one in work, and counts what waits', async () => {
        const ref = fresh();
        const spec = consumerOf(`observations.*.${tokensOf(ref)}.*`);
        for (let n = 0; n < 40; n++) await bus.publish(event(observationSubject(ref, `liqo-tunnel${n % 3}`), { n }));
        const order: number[] = [];
        const pending: number[] = [];
        let inWork = 0;
        const handle = async (delivery: Delivery): Promise<Settlement> => {
          expect(++inWork).toBe(1);
          order.push(dataOf(delivery).n);
          pending.push(delivery.pending);
          await Promise.resolve();
          inWork--;
          return ACK;
        };
        const other = await harness.connect();
        await using one = collect(bus, spec, handle);
        await using two = collect(other, spec, handle);
        await harness.until(() => order.length === 40, 'all forty');
        expect(order).toEqual(Array.from({ length: 40 }, (_, n) => n));
        expect(pending).toEqual(Array.from({ length: 40 }, (_, n) => 39 - n));
        // Who of the two gets them is the bus's choice: NATS stays with one, so that it knows the state from before.
        const counts = [...one.deliveries, ...two.deliveries].map(({ deliverySequence }) => deliverySequence);
        expect(counts.sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
        await two.stop();
        await other.close();
      });

      test('skips a count for the replica that did not get the message', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        const subject = decisionSubject(ref);
        const first = collect(bus, spec);
        await bus.publish(event(subject));
        await harness.until(() => first.deliveries.length === 1, 'the first');
        await first.stop();
        const other = await harness.connect();
        const second = collect(other, spec);
        await bus.publish(event(subject));
        await harness.until(() => second.deliveries.length === 1, 'the second');
        await second.stop();
        await using third = collect(bus, spec);
        await bus.publish(event(subject));
        await harness.until(() => third.deliveries.length === 1, 'the third');
        expect(first.deliveries[0]?.deliverySequence).toBe(1);
        expect(third.deliveries[0]?.deliverySequence).toBe(3);
        await other.close();
      });

      test('works on up to maxAckPending at once and no more', async () => {
        const ref = fresh();
        const spec = consumerOf(`changes.connections.${tokensOf(ref)}`, { stream: 'CHANGES', maxAckPending: 4 });
        for (let n = 0; n < 12; n++) await bus.publish(event(changeSubject('connections', ref), { n }));
        const release: (() => void)[] = [];
        const settled = () => new Promise<Settlement>((resolve) => release.push(() => resolve(ACK)));
        await using call = collect(bus, spec, settled);
        await harness.until(() => call.deliveries.length === 4, 'four in work');
        await harness.wait(ACK_WAIT_MS / 4);
        expect(call.deliveries.length).toBe(4);
        for (let done = 0; done < 12; done++) {
          await harness.until(() => release.length > done, `number ${done}`);
          release[done]?.();
        }
        await harness.until(() => call.deliveries.length === 12, 'all twelve');
        expect(call.deliveries.map((delivery) => dataOf(delivery).n).sort((a, b) => a - b)).toEqual(
          Array.from({ length: 12 }, (_, n) => n),
        );
        for (const resolve of release) resolve();
      });

      test('redelivers to another replica what a dead one held, after the ack wait', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        const doomed = await harness.connect();
        const controller = new AbortController();
        let held = 0;
        void doomed.consume(spec, () => new Promise(() => held++), controller.signal);
        await bus.publish(event(decisionSubject(ref), { n: 1 }));
        await bus.publish(event(decisionSubject(ref), { n: 2 }));
        await harness.until(() => held === 1, 'the doomed one to hold a message');
        await doomed.close();
        await using call = collect(bus, spec);
        await harness.until(() => call.deliveries.length === 2, 'both messages');
        expect(call.deliveries.map((d) => [dataOf(d).n, d.deliveryCount])).toEqual([
          [1, 2],
          [2, 1],
        ]);
      });

      test('leaves a slow handler its message beyond the ack wait', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        const other = await harness.connect();
        let finish: (() => void) | undefined;
        const slow = () => new Promise<Settlement>((resolve) => (finish = () => resolve(ACK)));
        await using one = collect(bus, spec, slow);
        await bus.publish(event(decisionSubject(ref)));
        await harness.until(() => one.deliveries.length === 1, 'the message');
        const two = collect(other, spec);
        await harness.wait(2.5 * ACK_WAIT_MS);
        expect(two.deliveries).toEqual([]);
        finish?.();
        await harness.wait(1.5 * ACK_WAIT_MS);
        expect(one.deliveries.length + two.deliveries.length).toBe(1);
        await two.stop();
        await other.close();
      });

      test('brings a retry again, not before its delay, and the rest of its order behind it', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        for (const n of [1, 2]) await bus.publish(event(decisionSubject(ref), { n }));
        const atMs: number[] = [];
        await using call = collect(bus, spec, (_, nth) => {
          atMs.push(harness.unixMs());
          return nth === 1 ? { kind: 'retry', delayMs: 300 } : ACK;
        });
        await harness.until(() => call.deliveries.length === 3, 'three deliveries');
        expect(call.deliveries.map((d) => [dataOf(d).n, d.deliveryCount])).toEqual([
          [1, 1],
          [1, 2],
          [2, 1],
        ]);
        expect((atMs[1] ?? 0) - (atMs[0] ?? 0)).toBeGreaterThanOrEqual(295); // the two sides round their clocks
      });

      test('never brings a terminated message again, and keeps the advisory with the reason', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        for (const n of [1, 2]) await bus.publish(event(decisionSubject(ref), { n }));
        await using call = collect(bus, spec, (_, nth) =>
          nth === 1 ? { kind: 'terminate', reason: 'Malformed: data is not JSON' } : ACK,
        );
        await harness.until(() => call.deliveries.length === 2, 'both');
        await harness.wait(1.5 * ACK_WAIT_MS);
        expect(call.deliveries.map((d) => dataOf(d).n)).toEqual([1, 2]);
        const subject = `$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.DECISIONS.${spec.durable}`;
        await harness.until(async () => (await bus.lastMessages('DEAD_LETTERS', subject)).length === 1, 'the advisory');
        const [advisory] = await bus.lastMessages('DEAD_LETTERS', subject);
        expect(dataOf(advisory as BusMessage)).toMatchObject({
          type: 'io.nats.jetstream.advisory.v1.terminated',
          stream: 'DECISIONS',
          consumer: spec.durable,
          stream_seq: call.deliveries[0]?.streamSequence,
          deliveries: 1,
          reason: 'Malformed: data is not JSON',
        });
      });

      test('gives up after maxDeliver deliveries and keeps the advisory', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS', maxDeliver: 3 });
        for (const n of [1, 2]) await bus.publish(event(decisionSubject(ref), { n }));
        await using call = collect(bus, spec, (delivery) =>
          dataOf(delivery).n === 1 ? { kind: 'retry', delayMs: 10 } : ACK,
        );
        await harness.until(() => call.deliveries.length === 4, 'three tries, then the other');
        expect(call.deliveries.map((d) => [dataOf(d).n, d.deliveryCount])).toEqual([
          [1, 1],
          [1, 2],
          [1, 3],
          [2, 1],
        ]);
        const subject = `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.DECISIONS.${spec.durable}`;
        await harness.until(async () => (await bus.lastMessages('DEAD_LETTERS', subject)).length === 1, 'the advisory');
        const [advisory] = await bus.lastMessages('DEAD_LETTERS', subject);
        expect(dataOf(advisory as BusMessage)).toMatchObject({
          type: 'io.nats.jetstream.advisory.v1.max_deliver',
          stream: 'DECISIONS',
          consumer: spec.durable,
          stream_seq: call.deliveries[0]?.streamSequence,
          deliveries: 3,
        });
      });

      test('takes a handler that throws as one that wants a retry', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        await bus.publish(event(decisionSubject(ref)));
        await using call = collect(bus, spec, (_, nth) => {
          if (nth === 1) throw new Error('a bug');
          return ACK;
        });
        await harness.until(() => call.deliveries.length === 2, 'the second try');
        expect(call.deliveries[1]?.deliveryCount).toBe(2);
      });

      test('on abort settles what is in work, takes no more, and another goes on at once', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS', ackWaitMs: 60_000 });
        for (const n of [1, 2, 3]) await bus.publish(event(decisionSubject(ref), { n }));
        const controller = new AbortController();
        const seen: number[] = [];
        let finish: (() => void) | undefined;
        let isEnded = false;
        const ended = bus
          .consume(
            spec,
            (delivery) => {
              seen.push(dataOf(delivery).n);
              return new Promise((resolve) => (finish = () => resolve(ACK)));
            },
            controller.signal,
          )
          .then(() => {
            isEnded = true;
          });
        await harness.until(() => finish !== undefined, 'the first');
        controller.abort();
        await harness.wait(100);
        expect(isEnded).toBe(false);
        finish?.();
        await harness.until(() => isEnded, 'the end');
        await ended;
        expect(seen).toEqual([1]);
        await using call = collect(bus, spec);
        await harness.until(() => call.deliveries.length === 2, 'the rest');
        expect(call.deliveries.map((d) => [dataOf(d).n, d.deliveryCount])).toEqual([
          [2, 1],
          [3, 1],
        ]);
      });

      test('returns at once where the signal has aborted already', async () => {
        const spec = consumerOf(`decisions.${tokensOf(fresh())}`, { stream: 'DECISIONS' });
        await bus.consume(spec, async () => ACK, AbortSignal.abort());
      });

      test('goes on behind the last settled message after somebody deleted the consumer', async () => {
        const ref = fresh();
        const spec = consumerOf(`decisions.${tokensOf(ref)}`, { stream: 'DECISIONS' });
        for (const n of [1, 2]) await bus.publish(event(decisionSubject(ref), { n }));
        await using call = collect(bus, spec);
        await harness.until(() => call.deliveries.length === 2, 'both');
        await harness.wait(50);
        await harness.deleteConsumer(spec);
        await bus.publish(event(decisionSubject(ref), { n: 3 }));
        await harness.until(() => call.deliveries.length >= 3, 'the third');
        expect(call.deliveries.map((d) => dataOf(d).n)).toEqual([1, 2, 3]);
        const [, second, third] = call.deliveries;
        expect(third?.deliverySequence).not.toBe((second?.deliverySequence ?? 0) + 1);
      });

      test.each([
        ['awaits its retry', async (): Promise<Settlement> => ({ kind: 'retry', delayMs: 600_000 })],
        ['is in work', () => new Promise<Settlement>(() => {})],
      ])('brings again what %s elsewhere after somebody deleted the consumer', async (_state, neverSettle) => {
        const ref = fresh();
        // Only a consumer that knows nothing of the event hands it out again before the test ends.
        const waits = { maxAckPending: 8, ackWaitMs: 600_000 };
        const spec = consumerOf(decisionSubject(ref), { stream: 'DECISIONS', ...waits });
        const other = await harness.connect();
        await using dying = collect(other, spec, neverSettle);
        await bus.publish(event(decisionSubject(ref), { n: 1 }));
        await harness.until(() => dying.deliveries.length === 1, 'the first');
        await harness.wait(50);
        await other.close();
        await using call = collect(bus, spec);
        for (const n of [2, 3]) await bus.publish(event(decisionSubject(ref), { n }));
        await harness.until(() => call.deliveries.length === 2, 'those behind it');
        await harness.wait(50);
        await harness.deleteConsumer(spec);
        await bus.publish(event(decisionSubject(ref), { n: 4 }));
        const seen = () => call.deliveries.map((delivery) => dataOf(delivery).n);
        await harness.until(() => seen().includes(4), 'the one after the deletion');
        await harness.until(() => seen().includes(1), 'the one that nobody settled');
      });
    });

    describe('schedule', () => {
      const armed = async (ref: { namespace: string; name: string }, n: number, inMs: number, keepFirst?: boolean) =>
        bus.schedule(event(timerSubject('silent', ref), { n }), {
          dueAtUnixMs: harness.unixMs() + inMs,
          target: dueSubject('silent', ref),
          ...(keepFirst !== undefined && { keepFirst }),
        });
      const dueOf = (ref: { namespace: string; name: string }) =>
        consumerOf(dueSubject('silent', ref), { stream: 'TIMERS' });

      test('publishes to the target when it is due, never earlier, with data and headers', async () => {
        const ref = fresh();
        const dueAtUnixMs = harness.unixMs() + 700;
        expect(await armed(ref, 1, 700)).toBe('armed');
        let seenAtMs = 0;
        await using call = collect(bus, dueOf(ref), () => {
          seenAtMs = harness.unixMs();
          return ACK;
        });
        await harness.until(() => call.deliveries.length === 1, 'the timer');
        const [due] = call.deliveries;
        expect(seenAtMs).toBeGreaterThanOrEqual(dueAtUnixMs - 1);
        expect(due).toMatchObject({ subject: dueSubject('silent', ref), headers: { 'ce-type': 'test' } });
        expect(due && dataOf(due)).toEqual({ n: 1 });
        await harness.until(
          async () => (await bus.lastMessages('TIMERS', timerSubject('silent', ref))).length === 0,
          'the timer to be gone',
        );
      });

      test('keeps the first where told so, else the new one replaces it', async () => {
        const ref = fresh();
        await armed(ref, 1, 60_000);
        expect(await armed(ref, 2, 60_000, true)).toBe('already-armed');
        expect(await armed(ref, 3, 700)).toBe('armed');
        await using call = collect(bus, dueOf(ref));
        await harness.until(() => call.deliveries.length === 1, 'the timer');
        await harness.wait(400);
        expect(call.deliveries.map(dataOf)).toEqual([{ n: 3 }]);
      });

      test('arms again once it has fired, also with the same event', async () => {
        const ref = fresh();
        const message = event(timerSubject('silent', ref), { n: 1 });
        const options = () => ({
          dueAtUnixMs: harness.unixMs() + 300,
          target: dueSubject('silent', ref),
          keepFirst: true,
        });
        await bus.schedule(message, options());
        await using call = collect(bus, dueOf(ref), async (_, nth) => {
          if (nth === 1) expect(await bus.schedule(message, options())).toBe('armed');
          return ACK;
        });
        await harness.until(() => call.deliveries.length === 2, 'the second firing');
      });
    });

    describe('live', () => {
      test('copies what is stored, with a gap detector, to who listens', async () => {
        const ref = fresh();
        const controller = new AbortController();
        const seen: LiveMessage[] = [];
        bus.subscribe(`live.${tokensOf(ref)}.*`, (message) => seen.push(message), controller.signal);
        const subject = observationSubject(ref, 'liqo-tunnel');
        await harness.until(async () => {
          await bus.publish(event(subject, { warm: true }));
          return seen.length > 0;
        }, 'the subscription');
        await harness.wait(50);
        seen.length = 0;
        const acks = [await bus.publish(event(subject, { n: 1 })), await bus.publish(event(subject, { n: 2 }))];
        await bus.publish(event(observationSubject(fresh(), 'liqo-tunnel'), { n: 'not ours' }));
        await harness.until(() => seen.length === 2, 'both copies');
        expect(seen.map(dataOf)).toEqual([{ n: 1 }, { n: 2 }]);
        expect(seen[1]).toMatchObject({
          subject: `live.${tokensOf(ref)}.liqo-tunnel`,
          stream: 'OBSERVATIONS',
          streamSequence: acks[1]?.sequence,
          previousSequence: acks[0]?.sequence,
          headers: { 'ce-type': 'test' },
        });
        controller.abort();
        await harness.wait(50);
        await bus.publish(event(subject, { n: 3 }));
        await harness.wait(50);
        expect(seen.length).toBe(2);
      });

      test('copies decisions too', async () => {
        const ref = fresh();
        const controller = new AbortController();
        const seen: LiveMessage[] = [];
        bus.subscribe('live.decisions.>', (message) => seen.push(message), controller.signal);
        await harness.until(async () => {
          await bus.publish(event(decisionSubject(ref)));
          return seen.length > 0;
        }, 'a copy');
        expect(seen[0]?.subject).toBe(`live.decisions.${tokensOf(ref)}`);
        controller.abort();
      });
    });

    test('a closed bus rejects as unavailable, and says so', async () => {
      const client = await harness.connect();
      expect(client.health()).toEqual({ connected: true });
      const changes: boolean[] = [];
      client.onHealthChange(({ connected }) => changes.push(connected));
      await client.close();
      expect(client.health().connected).toBe(false);
      await harness.until(() => changes.length === 1, 'the change');
      expect(changes).toEqual([false]);
      await expect(client.publish(event(decisionSubject(fresh())))).rejects.toMatchObject({ code: 'unavailable' });
    });
  });
}
