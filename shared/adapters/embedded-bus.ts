import type { BusMessage } from '../domain/cloud-event.ts';
import type { ConsumerSpec, StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  BusHealth,
  Delivery,
  EventBus,
  LastRead,
  PublishAck,
  Settlement,
  StoredMessage,
} from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';
import type { LiveFeed, LiveMessage } from '../ports/live-feed.ts';
import type { EmbeddedBroker } from './embedded-broker.ts';
import { EmbeddedCall } from './embedded-call.ts';

/**
 * One client of an {@link EmbeddedBroker}: what a connection is to a server. `close` without an abort before it is a
 * crash: what is in work stays unsettled and goes to somebody else after the ack wait.
 */
export class EmbeddedBus implements EventBus, LiveFeed {
  readonly #broker: EmbeddedBroker;
  readonly #clock: Clock;
  readonly #calls = new Set<EmbeddedCall>();
  readonly #unsubscribes = new Set<() => void>();
  readonly #healthListeners = new Set<(health: BusHealth) => void>();
  readonly #ignoreOutages: () => void;
  #isClosed = false;

  /** @param clock - the client's own: a frozen one says "still working" no more */
  constructor(broker: EmbeddedBroker, clock: Clock) {
    this.#broker = broker;
    this.#clock = clock;
    this.#ignoreOutages = broker.onOutage(() => this.#tellHealth());
  }

  async publish(message: BusMessage): Promise<PublishAck> {
    return this.#open().publish(message);
  }

  async publishAfter(message: BusMessage, last: LastRead): Promise<PublishAck | undefined> {
    return this.#open().publishAfter(message, last);
  }

  async schedule(
    message: BusMessage,
    options: { readonly dueAtUnixMs: number; readonly target: string; readonly keepFirst?: boolean },
  ): Promise<'armed' | 'already-armed'> {
    return this.#open().schedule(message, options);
  }

  async lastMessages(stream: StreamName, filter: string, before?: number): Promise<readonly StoredMessage[]> {
    return this.#open().lastMessages(stream, filter, before);
  }

  async consume(
    spec: ConsumerSpec,
    handle: (delivery: Delivery) => Promise<Settlement>,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return;
    const call = new EmbeddedCall(this.#notClosed().consumer(spec), handle, this.#clock);
    const onAbort = () => call.stop();
    this.#calls.add(call);
    signal.addEventListener('abort', onAbort, { once: true });
    await call.ended;
    signal.removeEventListener('abort', onAbort);
    this.#calls.delete(call);
  }

  subscribe(filter: string, onMessage: (message: LiveMessage) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    const unlisten = this.#notClosed().listen(filter, onMessage);
    const unsubscribe = () => {
      unlisten();
      signal.removeEventListener('abort', unsubscribe);
      this.#unsubscribes.delete(unsubscribe);
    };
    this.#unsubscribes.add(unsubscribe);
    signal.addEventListener('abort', unsubscribe);
  }

  health(): BusHealth {
    const reason = this.#isClosed ? 'the bus is closed' : this.#broker.outage;
    return reason === undefined ? { connected: true } : { connected: false, reason };
  }

  onHealthChange(listener: (health: BusHealth) => void): () => void {
    this.#healthListeners.add(listener);
    return () => this.#healthListeners.delete(listener);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const call of this.#calls) call.abandon();
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
    this.#ignoreOutages();
    this.#tellHealth();
  }

  #tellHealth(): void {
    const health = this.health();
    for (const listener of this.#healthListeners) listener(health);
  }

  #notClosed(): EmbeddedBroker {
    if (this.#isClosed) throw new BusError('unavailable', 'the bus is closed');
    return this.#broker;
  }

  #open(): EmbeddedBroker {
    const { outage } = this.#notClosed();
    if (outage !== undefined) throw new BusError('unavailable', outage);
    return this.#broker;
  }
}
