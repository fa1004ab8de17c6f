import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { DEAD_LETTER_TYPE, deadLetterOf } from '../../shared/domain/dead-letter.ts';
import { GATEWAY_TYPE } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import { deadLetterSubject, gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import { type ConsumerSpec, type StreamName, sharedConsumer } from '../../shared/domain/topology.ts';
import type { Delivery, EventBus, Settlement, StoredMessage } from '../../shared/ports/event-bus.ts';
import type { EventHistory } from '../../shared/ports/event-history.ts';
import { DeadLetterBox } from '../../shared/runtime/dead-letter-box.ts';
import { eventually } from '../support/eventually.ts';

const REF = { namespace: 'liqo.tenant', name: 'gw-a' };
const NEVER = new AbortController().signal;

export type BoxUnderTest = AsyncDisposable & { readonly bus: EventBus; readonly history: EventHistory };

/** The cases that the box has to pass on every bus. */
export function describeDeadLetterBox(start: () => Promise<BoxUnderTest>): void {
  let under: BoxUnderTest;
  let box: DeadLetterBox;
  beforeEach(async () => {
    under = await start();
    box = new DeadLetterBox({ bus: under.bus, history: under.history, clock: systemClock });
  });
  afterEach(() => under[Symbol.asyncDispose]());

  const lastOf = async (stream: StreamName, filter: string): Promise<StoredMessage> => {
    const [message] = await under.bus.lastMessages(stream, filter);
    if (message === undefined) throw new Error(`nothing on ${filter}`);
    return message;
  };

  /** Publishes an event and keeps it as a function keeps one that it cannot take. */
  async function dead(stream: StreamName, filter: string, event: { subject: string; type: string; data: object }) {
    const { subject, type, data } = event;
    await under.bus.publish(encodeCloudEvent(subject, { id: 'run.1', source: '/test', type, data }));
    const original = await lastOf(stream, filter);
    const fault = {
      function: 'under-test',
      reason: 'Poisonous',
      message: 'TypeError: a bug',
      at: '2026-01-01T00:00:00Z',
    };
    const letter = { id: `letter.${original.streamSequence}`, source: '/test', type: DEAD_LETTER_TYPE };
    const body = deadLetterOf(original, fault);
    await under.bus.publish(encodeCloudEvent(deadLetterSubject('under-test'), { ...letter, data: body }));
    return original;
  }

  const observations = 'observations.*.liqo=2Etenant.gw-a.liqo-tunnel';
  const deadObservation = () =>
    dead('OBSERVATIONS', observations, {
      ...{ subject: observationSubject(REF, 'liqo-tunnel'), type: OBSERVATION_TYPE, data: { n: 1 } },
    });

  describe('the box of dead letters', () => {
    test('is empty at first', async () => {
      expect(await box.open(NEVER)).toEqual([]);
    });

    test('holds each letter with its reason and the whole event', async () => {
      const original = await deadObservation();
      const open = await box.open(NEVER);
      expect(open).toMatchObject([
        {
          ...{ sequence: 1, function: 'under-test', reason: 'Poisonous', message: 'TypeError: a bug' },
          ...{ stream: 'OBSERVATIONS', streamSequence: original.streamSequence },
        },
      ]);
      const found = open[0] && (await box.original(open[0], NEVER));
      expect(found).toMatchObject({ subject: original.subject, headers: { 'ce-id': 'run.1' } });
      expect(new TextDecoder().decode(found?.data)).toBe('{"n":1}');
    });

    test('publishes an event again where it was published, as itself and no duplicate, once', async () => {
      const original = await deadObservation();
      const [letter] = await box.open(NEVER);
      if (letter === undefined) throw new Error('no letter');
      const ack = await box.retry(letter, NEVER);
      expect(ack).toMatchObject({ stream: 'OBSERVATIONS', duplicate: false });
      const again = await lastOf('OBSERVATIONS', observations);
      expect(again.streamSequence).toBeGreaterThan(original.streamSequence);
      expect(again.subject).toBe(original.subject);
      expect(again.headers).toMatchObject({ 'ce-id': 'run.1', 'ce-type': OBSERVATION_TYPE });
      expect([...again.data]).toEqual([...original.data]);
      expect(await box.open(NEVER)).toEqual([]);
      expect(await box.retry(letter, NEVER)).toMatchObject({ sequence: ack.sequence, duplicate: true });
    });

    test('gives an announcement that is tried again the epoch it had, and none that was overtaken', async () => {
      const announce = () =>
        dead('GATEWAYS', gatewaySubject(REF), {
          ...{ subject: gatewaySubject(REF), type: GATEWAY_TYPE, data: { gatewayName: 'a' } },
        });
      const original = await announce();
      const [letter] = await box.open(NEVER);
      if (letter === undefined) throw new Error('no letter');
      await box.retry(letter, NEVER);
      const again = await lastOf('GATEWAYS', gatewaySubject(REF));
      expect(JSON.parse(new TextDecoder().decode(again.data))).toEqual({
        gatewayName: 'a',
        epoch: original.streamSequence,
      });
      await expect(box.retry({ ...letter, sequence: 99 }, NEVER)).rejects.toThrow('has announced itself anew since');
    });

    test('refuses an event of which only a part was kept', async () => {
      await deadObservation();
      const [open] = await box.open(NEVER);
      if (open?.letter === undefined) throw new Error('no letter');
      const cut = { ...open, letter: { ...open.letter, dataBytes: 1_000_000 } };
      await expect(box.retry(cut, NEVER)).rejects.toThrow('only 7 of 1000000 bytes were kept');
    });

    test.each([
      ['dead.tunnel-status', 'junk{', /^on dead\.tunnel-status: no JSON: /],
      ['dead.x', '{}', /^on dead\.x: missing or of a wrong type: function, reason, /],
      ['dead.x', 'null', /^on dead\.x: want an object, got null$/],
    ])('says of what is no letter (%s %s) what it is, and still holds those that are', async (subject, text, why) => {
      await under.bus.publish({ subject, headers: {}, data: new TextEncoder().encode(text) });
      await deadObservation();
      const [junk, letter, ...more] = await box.open(NEVER);
      if (junk === undefined || letter === undefined) throw new Error('not both are there');
      expect(more).toEqual([]);
      expect(junk).toMatchObject({ sequence: 1, reason: 'Unreadable', message: expect.stringMatching(why) });
      const found = await box.original(junk, NEVER);
      expect(found?.subject).toBe(subject);
      expect(new TextDecoder().decode(found?.data)).toBe(text);
      await expect(box.retry(junk, NEVER)).rejects.toThrow('it is no dead letter');
      expect(await box.retry(letter, NEVER)).toMatchObject({ stream: 'OBSERVATIONS' });
      expect(await box.open(NEVER)).toEqual([junk]);
    });

    test('holds what was handed out too often and what was terminated, with the event while its stream keeps it', async () => {
      const spec: ConsumerSpec = { ...sharedConsumer('given-up', 'CHANGES', ['changes.*.*.*']), ackWaitMs: 300 };
      const stop = new AbortController();
      const settle = async ({ deliveryCount, data }: Delivery): Promise<Settlement> => {
        const { n } = JSON.parse(new TextDecoder().decode(data));
        if (n === 1) return { kind: 'terminate', reason: 'not today' };
        return deliveryCount > 5 ? { kind: 'ack' } : { kind: 'retry', delayMs: 1 };
      };
      const consuming = under.bus.consume({ ...spec, maxDeliver: 2 }, settle, stop.signal);
      for (const n of [1, 2]) {
        const event = { id: `change.${n}`, source: '/test', type: 'test', data: { n } };
        await under.bus.publish(encodeCloudEvent('changes.test.liqo.gw-a', event));
      }
      await eventually(async () => (await box.open(NEVER)).length === 2, 'both advisories');
      stop.abort();
      await consuming;
      const open = await box.open(NEVER);
      expect(open.map(({ reason, message }) => [reason, message]).toSorted()).toEqual([
        ['MaxDeliveries', 'handed out 2 times and never settled'],
        ['Terminated', 'not today'],
      ]);
      for (const letter of open) {
        const { stream, sequence } = await box.retry(letter, NEVER);
        expect(stream).toBe('CHANGES');
        expect(sequence).toBeGreaterThan(2);
      }
      expect(await box.open(NEVER)).toEqual([]);
    });
  });
}
