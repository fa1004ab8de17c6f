import type { Clock } from '../ports/clock.ts';
import type { Delivery, Settlement } from '../ports/event-bus.ts';
import type { EmbeddedCaller, EmbeddedConsumer } from './embedded-consumer.ts';
import { settlementOf } from './settlement.ts';
import { WorkingAcks } from './working-acks.ts';

/** One `consume` call: takes deliveries while it has free slots, and settles each as its handler says. */
export class EmbeddedCall implements EmbeddedCaller {
  /** Resolves once it is stopped and nothing is in work. */
  readonly ended: Promise<void>;
  readonly #end: () => void;
  readonly #consumer: EmbeddedConsumer;
  readonly #handle: (delivery: Delivery) => Promise<Settlement>;
  readonly #inWork: WorkingAcks;
  #state: 'running' | 'stopping' | 'abandoned' = 'running';

  constructor(consumer: EmbeddedConsumer, handle: (delivery: Delivery) => Promise<Settlement>, clock: Clock) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
    this.#consumer = consumer;
    this.#handle = handle;
    this.#inWork = new WorkingAcks(clock, consumer.spec.ackWaitMs);
    consumer.attach(this);
  }

  canTake(): boolean {
    return this.#state === 'running' && this.#inWork.size < this.#consumer.spec.maxAckPending;
  }

  deliver(delivery: Delivery): void {
    // A message that is redelivered to the handler that holds it: that one will settle it.
    if (!this.#inWork.has(delivery.streamSequence)) void this.#work(delivery);
  }

  /** Takes nothing more; ends when all in work is settled. */
  stop(): void {
    if (this.#state !== 'running') return;
    this.#state = 'stopping';
    this.#consumer.detach(this);
    this.#endIfIdle();
  }

  /** Lets go of everything at once, unsettled, as a process that is killed does. */
  abandon(): void {
    this.#state = 'abandoned';
    this.#inWork.stop();
    this.#consumer.detach(this);
    this.#end();
  }

  async #work(delivery: Delivery): Promise<void> {
    this.#inWork.add(delivery.streamSequence, () => this.#consumer.extend(delivery.streamSequence));
    const settlement = await settlementOf(this.#handle, delivery);
    if (this.#state === 'abandoned') return;
    this.#inWork.remove(delivery.streamSequence);
    this.#consumer.settle(delivery, settlement);
    this.#endIfIdle();
  }

  #endIfIdle(): void {
    if (this.#state !== 'stopping' || this.#inWork.size > 0) return;
    this.#inWork.stop();
    this.#end();
  }
}
