import type { BusMessage } from '../domain/cloud-event.ts';
import type { ConsumerSpec, StreamName } from '../domain/topology.ts';

/** A message as a stream keeps it. */
export type StoredMessage = BusMessage & {
  readonly stream: StreamName;
  readonly streamSequence: number;
  /** The server's time of the message: ages are differences of these. */
  readonly storedAtUnixMs: number;
};

/** A message as a consumer hands it out. */
export type Delivery = StoredMessage & {
  /** The consumer's own count of deliveries: exactly one more than the last means nobody else got one between. */
  readonly deliverySequence: number;
  /** 1 on the first delivery of this message. */
  readonly deliveryCount: number;
  /** Messages that wait behind this one. */
  readonly pending: number;
};

/** How a delivery is settled. */
export type Settlement =
  /** `failed`: what the event asks for was not done here; for a while the next ones go to another replica, if one is there. */
  | { readonly kind: 'ack'; readonly failed?: boolean }
  /** Comes again, not before `delayMs`; with `maxAckPending: 1` its partition waits for it. */
  | { readonly kind: 'retry'; readonly delayMs: number }
  /** Never again; the server's advisory says so too. */
  | { readonly kind: 'terminate'; readonly reason: string };

export type PublishAck = {
  readonly stream: string;
  readonly sequence: number;
  /** The stream held a message with this id already and dropped this one. */
  readonly duplicate: boolean;
};

/** What a stream held last when it was read. */
export type LastRead = {
  /** Of stored subjects, wildcards allowed. */
  readonly filter: string;
  /** Of the last message that matched; 0: there was none. */
  readonly sequence: number;
};

export type BusHealth = { readonly connected: true } | { readonly connected: false; readonly reason: string };

/** The message queue as the functions and gateways use it. All calls may reject with {@link BusError}. */
export interface EventBus {
  /** Resolves when a stream has stored the message. */
  publish(message: BusMessage, options?: { readonly timeoutMs?: number }): Promise<PublishAck>;

  /**
   * The same, but only while what was read is still the last there, in the stream that the message goes to; else it stores
   * nothing and resolves to `undefined`. So it may answer a repeat of a stored message, too: whoever reads again and then
   * repeats it is told of the duplicate.
   */
  publishAfter(message: BusMessage, last: LastRead): Promise<PublishAck | undefined>;

  /**
   * Arms a timer: at `dueAtUnixMs` (never earlier) the message's data and headers are published to `target`.
   * One timer a subject; `keepFirst` leaves one that is armed already as it is, otherwise the new one replaces it.
   */
  schedule(
    message: BusMessage,
    options: { readonly dueAtUnixMs: number; readonly target: string; readonly keepFirst?: boolean },
  ): Promise<'armed' | 'already-armed'>;

  /**
   * The last stored message of each subject that matches `filter` (stored form, wildcards allowed), by direct get; `before`
   * the sequence of another message of the stream, if one is named.
   */
  lastMessages(stream: StreamName, filter: string, before?: number): Promise<readonly StoredMessage[]>;

  /**
   * Hands deliveries of one durable consumer to `handle`, at most `maxAckPending` at a time (one after another
   * where that is 1), and settles each as `handle` says. Resolves once `signal` has aborted and every delivery in
   * work is settled. Survives lost connections, deleted consumers and leader changes by itself.
   */
  consume(
    consumer: ConsumerSpec,
    handle: (delivery: Delivery) => Promise<Settlement>,
    signal: AbortSignal,
  ): Promise<void>;

  health(): BusHealth;
  /** Called on each change between connected and not; returns how to stop that. */
  onHealthChange(listener: (health: BusHealth) => void): () => void;
  /** Flushes within a bound and lets go of the connection. */
  close(): Promise<void>;
}

/**
 * `full`: the stream refuses by its limits; `denied`: the user may not; `too-large`: more than the server takes in one
 * message, and never will; `unavailable`: try again later.
 */
export type BusErrorCode = 'unavailable' | 'timeout' | 'full' | 'denied' | 'too-large' | 'not-found';

export class BusError extends Error {
  readonly code: BusErrorCode;
  constructor(code: BusErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BusError';
    this.code = code;
  }
}
