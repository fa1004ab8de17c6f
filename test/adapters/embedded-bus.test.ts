import { beforeEach, describe, expect, test } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { decisionSubject, observationSubject, timerSubject } from '../../shared/domain/subjects.ts';
import type { ConsumerSpec, StreamSpec } from '../../shared/domain/topology.ts';
import type { Delivery } from '../../shared/ports/event-bus.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const REF = { namespace: 'ns', name: 'gw' };
const SUBJECT = decisionSubject(REF);
const SPEC: ConsumerSpec = {
  durable: 'reader',
  stream: 'DECISIONS',
  filterSubjects: [SUBJECT],
  maxAckPending: 1,
  ackWaitMs: 5_000,
  maxDeliver: 20,
};
const DAY_MS = 86_400_000;

let clock: VirtualClock;
let events = 0;
beforeEach(() => {
  clock = new VirtualClock();
});

const event = (n: number, subject = SUBJECT, id = `event-${++events}`) =>
  encodeCloudEvent(subject, { id, source: '/test', type: 'test', data: { n, padding: 'x'.repeat(100) } });
const numberOf = (message: { data: Uint8Array }): number => JSON.parse(new TextDecoder().decode(message.data)).n;
const start = (options: { streams?: readonly StreamSpec[]; maxBytesPerStream?: number } = {}) => {
  const broker = new EmbeddedBroker({ clock, ...options });
  return { broker, bus: new EmbeddedBus(broker, clock) };
};
/** Consumes into a list for as long as the test runs. */
const collect = (bus: EmbeddedBus, spec = SPEC) => {
  const deliveries: Delivery[] = [];
  const handle = async (delivery: Delivery) => {
    deliveries.push(delivery);
    return { kind: 'ack' } as const;
  };
  void bus.consume(spec, handle, new AbortController().signal);
  return deliveries;
};

describe('limits', () => {
  test('drop what is older than the stream keeps, for readers and consumers alike', async () => {
    const { bus } = start();
    await bus.publish(event(1));
    await clock.advance(DAY_MS - 1);
    expect(await bus.lastMessages('DECISIONS', SUBJECT)).toHaveLength(1);
    await bus.publish(event(2));
    await clock.advance(1);
    const deliveries = collect(bus);
    await clock.settle();
    expect(deliveries.map((d) => [numberOf(d), d.pending])).toEqual([[2, 0]]);
  });

  test('measure ages without the wall clock', async () => {
    const { bus } = start();
    await bus.publish(event(1));
    clock.stepUnix(2 * DAY_MS);
    expect(await bus.lastMessages('DECISIONS', SUBJECT)).toHaveLength(1);
  });

  test('drop the oldest where bytes run out, and the memory stays bounded', async () => {
    const { bus } = start({ maxBytesPerStream: 10_000 });
    for (let n = 0; n < 1_000; n++) await bus.publish(event(n));
    const deliveries = collect(bus);
    await clock.settle();
    expect(deliveries.length).toBeLessThan(50);
    expect(deliveries.at(-1)?.pending).toBe(0);
    expect(deliveries.map(numberOf)).toEqual(
      Array.from({ length: deliveries.length }, (_, index) => 1_000 - deliveries.length + index),
    );
  });

  test('forget a message id when its window is over, and not before', async () => {
    const { bus } = start();
    await bus.publish(event(1, SUBJECT, 'same'));
    await clock.advance(5 * 60_000 - 1);
    expect((await bus.publish(event(1, SUBJECT, 'same'))).duplicate).toBe(true);
    await clock.advance(1);
    expect((await bus.publish(event(1, SUBJECT, 'same'))).duplicate).toBe(false);
  });

  test('let an unread consumer count only what is still there', async () => {
    const { bus, broker } = start();
    broker.consumer({ ...SPEC, stream: 'GATEWAYS', durable: 'unread', filterSubjects: ['gateways.*.*'] });
    for (let n = 0; n < 5_000; n++) await bus.publish(event(n, `gateways.ns.gw-${n % 3}`));
    const spec = { ...SPEC, stream: 'GATEWAYS' as const, durable: 'unread', filterSubjects: ['gateways.*.*'] };
    const deliveries = collect(bus, spec);
    await clock.settle();
    expect(deliveries.map((d) => [numberOf(d), d.pending])).toEqual([
      [4_997, 2],
      [4_998, 1],
      [4_999, 0],
    ]);
  });
});

describe('a frozen client', () => {
  test('loses its message after the ack wait, since its clock says "still working" no more', async () => {
    const { broker, bus } = start();
    const frozen = new VirtualClock();
    const victim = new EmbeddedBus(broker, frozen);
    void victim.consume(SPEC, () => new Promise(() => {}), new AbortController().signal);
    await bus.publish(event(1));
    await clock.settle();
    const deliveries = collect(bus);
    await clock.advance(SPEC.ackWaitMs - 1);
    expect(deliveries).toHaveLength(0);
    await clock.advance(1);
    expect(deliveries.map((d) => d.deliveryCount)).toEqual([2]);
  });

  test('that settles late settles the message, whoever has it now', async () => {
    const { broker } = start();
    const bus = new EmbeddedBus(broker, new VirtualClock());
    let finish: (() => void) | undefined;
    void bus.consume(
      SPEC,
      () => new Promise((resolve) => (finish = () => resolve({ kind: 'ack' }))),
      new AbortController().signal,
    );
    await bus.publish(event(1));
    await clock.advance(SPEC.ackWaitMs + 1);
    finish?.();
    await clock.settle();
    const deliveries = collect(new EmbeddedBus(broker, clock));
    await clock.advance(10 * SPEC.ackWaitMs);
    expect(deliveries).toHaveLength(0);
  });
});

test('a stuck handler loses its message to another client after six ack waits', async () => {
  const { broker, bus } = start();
  void bus.consume(SPEC, () => new Promise(() => {}), new AbortController().signal);
  await bus.publish(event(1));
  const deliveries = collect(new EmbeddedBus(broker, clock));
  await clock.advance(5.9 * SPEC.ackWaitMs);
  expect(deliveries).toHaveLength(0);
  await clock.advance(1.1 * SPEC.ackWaitMs);
  expect(deliveries.map((d) => d.deliveryCount)).toEqual([2]);
});

test('a timer never fires early, though the wall clock is set back meanwhile', async () => {
  const { bus } = start();
  const dueAtUnixMs = clock.unixMs() + 1_000;
  await bus.schedule(event(1, timerSubject('silent', REF)), { dueAtUnixMs, target: 'due.silent.ns.gw' });
  clock.stepUnix(-60_000);
  await clock.advance(60_000);
  expect(await bus.lastMessages('TIMERS', 'due.silent.ns.gw')).toHaveLength(0);
  await clock.advance(1_000);
  expect(await bus.lastMessages('TIMERS', 'due.silent.ns.gw')).toHaveLength(1);
});

test('a timer stays within its stream', async () => {
  const { bus } = start();
  const options = { dueAtUnixMs: 0, target: SUBJECT };
  await expect(bus.schedule(event(1, timerSubject('silent', REF)), options)).rejects.toMatchObject({ code: 'denied' });
});

test('says the same on every run', async () => {
  const run = async () => {
    clock = new VirtualClock();
    events = 0;
    const { broker, bus } = start();
    const trace: unknown[] = [];
    for (let replica = 0; replica < 3; replica++) {
      const client = new EmbeddedBus(broker, clock);
      const handle = async (delivery: Delivery) => {
        trace.push([replica, clock.monotonicMs(), delivery.deliverySequence, delivery.deliveryCount]);
        await clock.sleep((delivery.streamSequence * 37) % 11);
        return delivery.streamSequence % 5 === 0 && delivery.deliveryCount === 1
          ? ({ kind: 'retry', delayMs: 20 } as const)
          : ({ kind: 'ack' } as const);
      };
      const filterSubjects = ['observations.*.*.*.*'];
      const spec = { ...SPEC, stream: 'OBSERVATIONS' as const, filterSubjects, maxAckPending: 4 };
      void client.consume(spec, handle, new AbortController().signal);
    }
    for (let n = 0; n < 50; n++) await bus.publish(event(n, observationSubject(REF, `liqo-tunnel${n % 4}`)));
    await clock.advance(10_000);
    return trace;
  };
  const first = await run();
  expect(first).toHaveLength(60);
  expect(await run()).toEqual(first);
});

test('takes ten thousand messages through sixteen consumers', async () => {
  const { bus } = start();
  let handled = 0;
  const count = async () => {
    handled++;
    return { kind: 'ack' } as const;
  };
  for (let partition = 0; partition < 16; partition++) {
    const filterSubjects = [`observations.${partition}.*.*.*`];
    const spec = { ...SPEC, stream: 'OBSERVATIONS' as const, durable: `p-${partition}`, filterSubjects };
    void bus.consume(spec, count, new AbortController().signal);
  }
  for (let n = 0; n < 10_000; n++) {
    await bus.publish(event(n, observationSubject({ namespace: `ns-${n % 97}`, name: `gw-${n % 13}` }, 'liqo-tunnel')));
  }
  await clock.settle();
  expect(handled).toBe(10_000);
});

describe('an outage of the server', () => {
  test('refuses, delivers nothing, tells its clients, and forgets nothing', async () => {
    const { broker, bus } = start();
    const healths: boolean[] = [];
    bus.onHealthChange(({ connected }) => healths.push(connected));
    const deliveries = collect(bus);
    await bus.publish(event(1));
    await clock.settle();
    broker.setOutage('taken away');
    await expect(bus.publish(event(2))).rejects.toMatchObject({ code: 'unavailable', message: 'taken away' });
    await expect(bus.lastMessages('DECISIONS', SUBJECT)).rejects.toMatchObject({ code: 'unavailable' });
    await clock.advance(60_000);
    expect(deliveries.map(numberOf)).toEqual([1]);
    broker.setOutage(undefined);
    await bus.publish(event(3));
    await clock.settle();
    expect(deliveries.map(numberOf)).toEqual([1, 3]);
    expect(healths).toEqual([false, true]);
  });

  test('loses settlements: what was in work comes again', async () => {
    const { broker, bus } = start();
    const counts: number[] = [];
    const working = Promise.withResolvers<void>();
    const handle = async ({ deliveryCount }: Delivery) => {
      counts.push(deliveryCount);
      if (deliveryCount === 1) await working.promise;
      return { kind: 'ack' } as const;
    };
    void bus.consume(SPEC, handle, new AbortController().signal);
    await bus.publish(event(1));
    await clock.settle();
    broker.setOutage('taken away');
    working.resolve();
    await clock.settle();
    broker.setOutage(undefined);
    await clock.advance(2 * SPEC.ackWaitMs);
    expect(counts).toEqual([1, 2]);
  });

  test('makes timers late, not lost', async () => {
    const { broker, bus } = start();
    const target = 'due.silent.ns.gw';
    await bus.schedule(event(1, timerSubject('silent', REF)), { dueAtUnixMs: clock.unixMs() + 1_000, target });
    broker.setOutage('taken away');
    await clock.advance(5_000);
    broker.setOutage(undefined);
    expect(await bus.lastMessages('TIMERS', target)).toEqual([]);
    await clock.advance(1_000);
    expect(await bus.lastMessages('TIMERS', target)).toHaveLength(1);
  });
});
