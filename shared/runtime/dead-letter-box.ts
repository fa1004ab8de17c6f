import { encodeCloudEvent } from '../domain/cloud-event.ts';
import { letterOf, type OpenLetter, RETRIED_TYPE, type Retried, retriedIn, retryOf } from '../domain/dead-letter.ts';
import { STREAMS, type StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventBus, PublishAck, StoredMessage } from '../ports/event-bus.ts';
import type { EventHistory } from '../ports/event-history.ts';

const RETRIED_SUBJECT = 'dead.retried';

/** A letter cannot be retried; the message says why, for people. */
export class RetryError extends Error {
  readonly code = 'CANNOT_RETRY';
}

type Ports = {
  readonly bus: Pick<EventBus, 'publish' | 'lastMessages'>;
  readonly history: EventHistory;
  readonly clock: Clock;
};

/** What no function could take, as DEAD_LETTERS keeps it. Calls may reject with BusError. */
export class DeadLetterBox {
  readonly #bus: Ports['bus'];
  readonly #history: EventHistory;
  readonly #clock: Clock;

  constructor({ bus, history, clock }: Ports) {
    this.#bus = bus;
    this.#history = history;
    this.#clock = clock;
  }

  /** Those that were not retried, oldest first. */
  async open(signal: AbortSignal): Promise<readonly OpenLetter[]> {
    const letters = new Map<number, OpenLetter>();
    for await (const batch of this.#history.read({ stream: 'DEAD_LETTERS', from: { sequence: 1 } }, signal)) {
      for (const message of batch) {
        const retried = message.headers['ce-type'] === RETRIED_TYPE ? retriedIn(message.data) : undefined;
        const storedAt = new Date(message.storedAtUnixMs).toISOString();
        const letter = retried === undefined ? letterOf({ ...message, storedAt }) : undefined;
        if (retried !== undefined) letters.delete(retried);
        if (letter !== undefined) letters.set(letter.sequence, letter);
      }
    }
    return [...letters.values()];
  }

  /**
   * The event that a letter is about, or what lies there instead of one; `undefined` where only its place is known and
   * its stream no longer keeps it.
   */
  async original(
    { letter, stream, streamSequence }: OpenLetter,
    signal: AbortSignal,
  ): Promise<StoredMessage | undefined> {
    if (letter !== undefined) {
      const { subject, headers, dataBase64, at } = letter;
      const data = Buffer.from(dataBase64, 'base64');
      return { stream: streamOf(stream), streamSequence, subject, headers, data, storedAtUnixMs: Date.parse(at) };
    }
    const query = { stream: streamOf(stream), from: { sequence: streamSequence } };
    for await (const [first] of this.#history.read(query, signal)) {
      return first?.streamSequence === streamSequence ? first : undefined;
    }
    return undefined;
  }

  /**
   * Publishes the event of a letter again, under an id of its own so that it is no duplicate, and notes that it did.
   * Repeated at once it has no effect.
   *
   * @throws RetryError where that cannot be right
   */
  async retry(open: OpenLetter, signal: AbortSignal): Promise<PublishAck> {
    const { sequence, letter, stream, streamSequence, isUnreadable } = open;
    if (isUnreadable) throw new RetryError(`it is no dead letter, and goes with its age (${open.message})`);
    const original = await this.original(open, signal);
    if (original === undefined) throw new RetryError(`${stream} no longer keeps message ${streamSequence}`);
    if (letter !== undefined && original.data.byteLength < letter.dataBytes) {
      throw new RetryError(`only ${original.data.byteLength} of ${letter.dataBytes} bytes were kept`);
    }
    if (stream === 'GATEWAYS') await this.#refuseSuperseded(original);
    const ack = await this.#bus.publish(retryOf(sequence, original));
    const at = new Date(this.#clock.unixMs()).toISOString();
    const data: Retried = { sequence, stream: ack.stream, streamSequence: ack.sequence, at };
    const note = { id: `retried.${sequence}`, source: '/deadletters', type: RETRIED_TYPE, time: at, data };
    await this.#bus.publish(encodeCloudEvent(RETRIED_SUBJECT, note));
    return ack;
  }

  /** GATEWAYS keeps one announcement a gateway: an old one would take the place of what counts. */
  async #refuseSuperseded({ subject, streamSequence }: StoredMessage): Promise<void> {
    const [last] = await this.#bus.lastMessages('GATEWAYS', subject);
    if (last !== undefined && last.streamSequence > streamSequence) {
      throw new RetryError(`the gateway has announced itself anew since (GATEWAYS ${last.streamSequence})`);
    }
  }
}

function streamOf(name: string): StreamName {
  const known = STREAMS.find((stream) => stream.name === name);
  if (known === undefined) throw new RetryError(`there is no stream ${name}`);
  return known.name;
}
