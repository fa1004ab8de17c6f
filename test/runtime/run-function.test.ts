import { describe, expect, it } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { type BusMessage, encodeCloudEvent, MAX_EVENT_BYTES } from '../../shared/domain/cloud-event.ts';
import type { DeadLetter } from '../../shared/domain/dead-letter.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import { changeSubject } from '../../shared/domain/subjects.ts';
import { sharedConsumer } from '../../shared/domain/topology.ts';
import { BusError, type BusErrorCode, type EventBus } from '../../shared/ports/event-bus.ts';
import {
  defineFunction,
  type EventHandler,
  type FunctionInstance,
  type FunctionManifest,
  type Outcome,
} from '../../shared/runtime/define-function.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import { CountingMeter } from '../support/counting-meter.ts';
import { passingBus } from '../support/passing.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const REF = { namespace: 'here', name: 'gw-a' };
const TYPE = 'test.counted.v1';
type Counted = { readonly n: number };

const MANIFEST: FunctionManifest = {
  name: 'under-test',
  summary: 'Does what the test says',
  accepts: [
    {
      type: TYPE,
      schema: {
        type: 'object',
        properties: { n: { type: 'integer' }, name: { type: 'string' } },
        required: ['n'],
      },
      about: () => [REF.namespace, REF.name],
    },
  ],
  consumers: [sharedConsumer('under-test', 'CHANGES', ['changes.counted.*.*'])],
  attemptTimeoutMs: 2_000,
  onFailure: 'retry',
};

type Changes = {
  readonly manifest?: Partial<FunctionManifest>;
  readonly start?: FunctionInstance<Counted>['start'];
  readonly bus?: (bus: EventBus) => EventBus;
};

/** One function on an embedded bus. */
class Runtime {
  readonly clock = new VirtualClock();
  readonly broker = new EmbeddedBroker({ clock: this.clock });
  readonly meter = new CountingMeter();
  readonly #outside = new EmbeddedBus(this.broker, this.clock);
  readonly #kubernetes = new EmbeddedKubernetes({ clock: this.clock, newUid: () => 'uid' });

  start(handle: EventHandler<Counted>, changes: Changes = {}) {
    const manifest = { ...MANIFEST, ...changes.manifest };
    const { start } = changes;
    const definition = defineFunction<Counted>({ manifest, create: () => ({ handle, ...(start && { start }) }) });
    const bus = new EmbeddedBus(this.broker, this.clock);
    const ports = {
      bus: changes.bus?.(bus) ?? bus,
      state: new EmbeddedStateStore(),
      connections: new EmbeddedConnectionStore(this.#kubernetes),
      feed: new EmbeddedChangeFeed(this.#kubernetes),
      clock: this.clock,
      log: silentLogger,
      meter: this.meter,
    };
    const stopping = new AbortController();
    const settings = { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 30_000 };
    const done = runReplica(definition, ports, settings, stopping.signal);
    return { stop: () => stopping.abort(), done };
  }

  async publish(n: number, more: Partial<BusMessage> = {}): Promise<void> {
    const event = { id: `event-${n}`, source: '/test', type: TYPE, data: { n } };
    await this.#outside.publish({ ...encodeCloudEvent(changeSubject('counted', REF), event), ...more });
    await this.clock.settle();
  }

  outcomes(outcome: string): number {
    return this.meter.of('wg_keepalive_events_total', MANIFEST.name, outcome);
  }

  letters(): DeadLetter[] {
    return this.#dataOf('DEAD_LETTERS');
  }

  decisions(): Decision[] {
    return this.#dataOf('DECISIONS');
  }

  #dataOf<Data>(stream: 'DEAD_LETTERS' | 'DECISIONS'): Data[] {
    return [...this.broker.messages(stream)].map(({ data }) => JSON.parse(new TextDecoder().decode(data)) as Data);
  }
}

const written = { outcome: 'written', reason: 'Done', connection: REF } as const;

describe('the runtime', () => {
  it.each<readonly [string, Partial<BusMessage>, string, string]>([
    ['no JSON', { data: Buffer.from('{') }, 'Malformed', 'data is not JSON'],
    ['no CloudEvent', { headers: {} }, 'Malformed', 'ce-specversion is undefined'],
    ['no text', { data: Uint8Array.of(0xff, 0xfe) }, 'Malformed', 'data is not JSON'],
    ['too much', { data: Buffer.alloc(MAX_EVENT_BYTES + 1, ' ') }, 'Oversized', `at most ${MAX_EVENT_BYTES}`],
    ['a wrong field', { data: Buffer.from('{"n":"one"}') }, 'SchemaViolation', '/n must be integer'],
    ['a missing field', { data: Buffer.from('{}') }, 'SchemaViolation', "must have required property 'n'"],
    ['another subject', { subject: 'changes.counted.elsewhere.gw-a' }, 'ForeignSubject', 'about here.gw-a'],
  ])('keeps an event that holds %s, with the reason, once, and calls no handler', async (_, fault, reason, message) => {
    const runtime = new Runtime();
    let calls = 0;
    const handle = async () => {
      calls++;
      return written;
    };
    for (let replica = 0; replica < 2; replica++) runtime.start(handle);
    await runtime.publish(1, fault);
    await runtime.clock.advance(600_000);
    expect(runtime.letters()).toMatchObject([
      { function: 'under-test', reason, message: expect.stringContaining(message), stream: 'CHANGES' },
    ]);
    expect(runtime.outcomes('invalid')).toBe(1);
    expect(calls).toBe(0);
  });

  it('keeps an event of a type that the function does not take', async () => {
    const runtime = new Runtime();
    runtime.start(async () => written);
    await runtime.publish(1, {
      headers: { 'ce-specversion': '1.0', 'ce-id': 'x', 'ce-source': '/x', 'ce-type': 'test.counted.v2' },
    });
    expect(runtime.letters()).toMatchObject([
      { reason: 'UnknownType', message: 'ce-type is "test.counted.v2", want test.counted.v1' },
    ]);
  });

  it('keeps the original bytes and headers of a dead letter', async () => {
    const runtime = new Runtime();
    runtime.start(async () => ({ outcome: 'invalid', reason: 'NotToday' }));
    await runtime.publish(7);
    const [letter] = runtime.letters();
    expect(letter).toMatchObject({ reason: 'NotToday', subject: 'changes.counted.here.gw-a', dataBytes: 7 });
    expect(Buffer.from(letter?.dataBase64 ?? '', 'base64').toString()).toBe('{"n":7}');
    expect(letter?.headers).toMatchObject({ 'ce-id': 'event-7', 'Nats-Msg-Id': 'event-7' });
  });

  it('takes an event that a handler always throws at as poisonous after five tries, and goes on with others', async () => {
    const runtime = new Runtime();
    const triesAt: number[] = [];
    runtime.start(async ({ data }) => {
      if (data.n !== 1) return written;
      triesAt.push(runtime.clock.monotonicMs());
      throw new TypeError('a bug');
    });
    await runtime.publish(1);
    await runtime.publish(2);
    expect(runtime.outcomes('written')).toBe(1);
    await runtime.clock.advance(3_600_000);
    expect(triesAt).toEqual([0, 250, 750, 1_750, 3_750]);
    expect(runtime.letters()).toMatchObject([{ reason: 'Poisonous', message: 'TypeError: a bug' }]);
    expect(runtime.outcomes('invalid')).toBe(1);
  });

  it('hands a failed event out again where its manifest says so, and tells both ends of it', async () => {
    const runtime = new Runtime();
    const triesAt: number[] = [];
    runtime.start(async () => {
      triesAt.push(runtime.clock.monotonicMs());
      return triesAt.length < 3 ? { outcome: 'failed', reason: 'Busy', connection: REF } : written;
    });
    await runtime.publish(1);
    await runtime.clock.advance(60_000);
    expect(triesAt).toEqual([0, 250, 750]);
    expect(runtime.decisions().map(({ outcome, eventId }) => [outcome, eventId])).toEqual([
      ['failed', 'event-1'],
      ['written', 'event-1'],
    ]);
    expect([runtime.outcomes('failed'), runtime.outcomes('written')]).toEqual([2, 1]);
  });

  it('acknowledges a failed event where the next one repairs it', async () => {
    const runtime = new Runtime();
    runtime.start(async () => ({ outcome: 'failed', reason: 'Busy', connection: REF }), {
      manifest: { onFailure: 'ack' },
    });
    await runtime.publish(1);
    await runtime.clock.advance(60_000);
    expect(runtime.outcomes('failed')).toBe(1);
  });

  it('gives up an attempt when its time is over, which runs from its first call', async () => {
    const runtime = new Runtime();
    let abortedAt = 0;
    runtime.start(async (_, { attemptSignal }) => {
      await runtime.clock.sleep(5_000);
      await runtime.clock.sleep(60_000, attemptSignal()).catch(() => {});
      abortedAt = runtime.clock.monotonicMs();
      return written;
    });
    await runtime.publish(1);
    await runtime.clock.advance(60_000);
    expect(abortedAt).toBe(7_000);
    expect(runtime.outcomes('written')).toBe(1);
  });

  it('says whether another replica handled an event of the consumer in between', async () => {
    const runtime = new Runtime();
    const handled: { readonly by: number; readonly uninterrupted: boolean }[] = [];
    const consumers = MANIFEST.consumers.map((spec) => ({ ...spec, maxAckPending: 1 }));
    const start = (by: number) => {
      const handle: EventHandler<Counted> = async (_, { uninterrupted }) => {
        handled.push({ by, uninterrupted });
        return written;
      };
      return runtime.start(handle, { manifest: { consumers } });
    };
    const first = start(1);
    for (let n = 0; n < 3; n++) await runtime.publish(n);
    start(2);
    for (let n = 3; n < 7; n++) await runtime.publish(n);
    first.stop();
    await first.done;
    for (let n = 7; n < 10; n++) await runtime.publish(n);
    expect(handled.map(({ uninterrupted }) => uninterrupted)).toEqual(
      handled.map(({ by }, index) => handled[index - 1]?.by === by),
    );
    expect(new Set(handled.slice(3, 7).map(({ by }) => by)).size).toBe(2);
  });

  it('settles what is in work when it stops, takes nothing more, and ends', async () => {
    const runtime = new Runtime();
    const handled: number[] = [];
    const handle: EventHandler<Counted> = async ({ data }) => {
      await runtime.clock.sleep(1_000);
      handled.push(data.n);
      return written;
    };
    const replica = runtime.start(handle);
    for (let n = 0; n < 5; n++) await runtime.publish(n);
    replica.stop();
    let isDone = false;
    void replica.done.then(() => {
      isDone = true;
    });
    await runtime.publish(5);
    await runtime.clock.advance(999);
    expect(isDone).toBe(false);
    await runtime.clock.advance(1);
    expect(isDone).toBe(true);
    await runtime.clock.advance(60_000);
    expect(handled).toEqual([0, 1, 2, 3, 4]);
    runtime.start(handle);
    await runtime.clock.advance(60_000);
    expect(handled).toEqual([0, 1, 2, 3, 4, 5]); // and none of the five again
  });

  it('hands an event back at once that it cannot finish because it stops', async () => {
    const runtime = new Runtime();
    const replica = runtime.start(async (_, { attemptSignal }) => {
      await runtime.clock.sleep(60_000, attemptSignal());
      return written;
    });
    await runtime.publish(1);
    const handled: number[] = [];
    replica.stop();
    await runtime.clock.settle();
    await replica.done;
    runtime.start(async ({ data }) => {
      handled.push(data.n);
      return written;
    });
    await runtime.clock.advance(10);
    expect(handled).toEqual([1]);
  });

  it('starts before the first event, again until it succeeds, and not at all once it is told to stop', async () => {
    const runtime = new Runtime();
    const order: string[] = [];
    const start = async () => {
      order.push('start');
      if (order.length < 3) throw new BusError('unavailable', 'away');
    };
    const handle = async () => {
      order.push('event');
      return written;
    };
    runtime.start(handle, { start });
    await runtime.publish(1);
    await runtime.clock.advance(5_000);
    expect(order).toEqual(['start', 'start', 'start', 'event']);

    const failing = runtime.start(handle, { start: () => Promise.reject(new Error('never')) });
    await runtime.clock.advance(60_000);
    failing.stop();
    await failing.done;
  });

  it('tells what was written when the bus answers again, and does not handle the event anew', async () => {
    const runtime = new Runtime();
    const outcomes: Outcome[] = [written, { outcome: 'throttled', reason: 'Unchanged', connection: REF }];
    let refusals = 2;
    runtime.start(async () => outcomes.shift() ?? written, {
      bus: (bus) => ({
        ...passingBus(bus),
        publish: async (message, options) => {
          if (message.subject.startsWith('decisions.') && refusals-- > 0) throw new BusError('timeout', 'by the test');
          return bus.publish(message, options);
        },
      }),
    });
    await runtime.publish(1);
    await runtime.clock.advance(60_000);
    expect(runtime.decisions().map(({ outcome, eventId }) => [outcome, eventId])).toEqual([['written', 'event-1']]);
    expect([runtime.outcomes('written'), runtime.outcomes('throttled')]).toEqual([1, 0]);
  });

  it('gives a decision up where the bus does not answer for long: the data path goes first', async () => {
    const runtime = new Runtime();
    runtime.start(async () => written, { bus: (bus) => withoutDecisions(bus, 'unavailable') });
    await runtime.publish(1);
    await runtime.clock.advance(60_000);
    expect(runtime.outcomes('written')).toBe(1);
    expect(runtime.meter.of('wg_keepalive_decisions_lost_total', MANIFEST.name, 'unavailable')).toBe(1);
  });

  it.each<BusErrorCode>(['denied', 'full', 'not-found'])('gives a decision up at once that is %s', async (code) => {
    const runtime = new Runtime();
    runtime.start(async () => written, { bus: (bus) => withoutDecisions(bus, code) });
    for (let n = 0; n < 3; n++) await runtime.publish(n);
    expect(runtime.outcomes('written')).toBe(3);
    expect(runtime.meter.of('wg_keepalive_decisions_lost_total', MANIFEST.name, code)).toBe(3);
  });

  it('loses no dead letter to a bus that refuses it for a while', async () => {
    const runtime = new Runtime();
    let refusals = 4;
    runtime.start(async () => written, {
      bus: (bus) => ({
        ...passingBus(bus),
        publish: async (message, options) => {
          if (message.subject.startsWith('dead.') && refusals-- > 0) throw new BusError('full', 'no room');
          return bus.publish(message, options);
        },
      }),
    });
    await runtime.publish(1, { data: Buffer.from('{') });
    await runtime.clock.advance(60_000);
    expect(runtime.letters()).toHaveLength(1);
    expect(runtime.outcomes('invalid')).toBe(1);
  });

  it('refuses a manifest whose attempt may outlast the ack wait', () => {
    const manifest = { ...MANIFEST, attemptTimeoutMs: 2_500 };
    expect(() => defineFunction({ manifest, create: () => ({ handle: async () => written }) })).toThrow(
      'function under-test: attemptTimeoutMs 2500 is not under half the ack wait of under-test (5000)',
    );
  });
});

function withoutDecisions(bus: EventBus, code: BusErrorCode): EventBus {
  return {
    ...passingBus(bus),
    publish: async (message, options) => {
      if (message.subject.startsWith('decisions.')) throw new BusError(code, 'by the test');
      return bus.publish(message, options);
    },
  };
}
