import { subjectMatches } from '../domain/subject-pattern.ts';
import type { ConsumerSpec } from '../domain/topology.ts';
import type { ConsumerStatistics } from '../ports/bus-statistics.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import type { Delivery, Settlement, StoredMessage } from '../ports/event-bus.ts';
import type { EmbeddedStream, StreamFollower } from './embedded-stream.ts';

/** One `consume` call on a durable consumer. */
export type EmbeddedCaller = {
  /** Whether it has a free slot. */
  canTake(): boolean;
  deliver(delivery: Delivery): void;
};

/** Why a message will not be delivered again. */
export type ConsumerAdvisory = {
  readonly kind: 'max-deliveries' | 'terminated';
  readonly streamSequence: number;
  readonly deliverySequence: number;
  readonly deliveryCount: number;
  readonly reason?: string;
};

type Pending = { deliverySequence: number; deliveryCount: number; deadlineMs: number; isQueued: boolean };

/** Dead entries that the queue of waiting sequences may hold before it is swept. */
const QUEUE_SLACK = 1024;

/** A durable consumer in memory: explicit acks, shared by its callers in turn, redelivers what is not settled in time. */
export class EmbeddedConsumer implements StreamFollower {
  readonly spec: ConsumerSpec;
  readonly #stream: EmbeddedStream;
  readonly #clock: Clock;
  readonly #advise: (advisory: ConsumerAdvisory) => void;
  readonly #callers: EmbeddedCaller[] = [];
  readonly #pending = new Map<number, Pending>();
  /** Sequences that match and were never delivered, from `#head` on; the stream may have dropped some since. */
  #queue: number[] = [];
  #head = 0;
  /** Those in the queue that the stream still has. */
  #waiting = 0;
  #redeliveries: number[] = [];
  #lastDelivered = 0;
  #deliverySequence = 0;
  #timer: { readonly dueMs: number; readonly handle: Timer } | undefined;
  #isPumping = false;
  #isInterrupted = false;

  constructor(spec: ConsumerSpec, stream: EmbeddedStream, clock: Clock, advise: (advisory: ConsumerAdvisory) => void) {
    this.spec = spec;
    this.#stream = stream;
    this.#clock = clock;
    this.#advise = advise;
    this.#fillQueue();
    stream.follow(this);
  }

  onStored(message: StoredMessage): void {
    if (!this.#matches(message.subject)) return;
    this.#queue.push(message.streamSequence);
    this.#waiting++;
    if (this.#queue.length - this.#head > 2 * this.#waiting + QUEUE_SLACK) this.#fillQueue();
    this.#pump();
  }

  onRemoved(message: StoredMessage): void {
    if (message.streamSequence > this.#lastDelivered && this.#matches(message.subject)) this.#waiting--;
  }

  attach(caller: EmbeddedCaller): void {
    this.#callers.push(caller);
    this.#pump();
  }

  detach(caller: EmbeddedCaller): void {
    const index = this.#callers.indexOf(caller);
    if (index >= 0) this.#callers.splice(index, 1);
    if (this.#callers.length === 0 && this.#pending.size === 0) this.#disarm();
  }

  /** As on the server, it is the message that is settled, whichever of its deliveries says so. */
  settle(delivery: Delivery, settlement: Settlement): void {
    this.#pump(); // its caller has a free slot now
    const { streamSequence } = delivery;
    const pending = this.#pending.get(streamSequence);
    if (!pending || this.#isInterrupted) return; // a server that is away hears no settlement: it delivers again
    if (settlement.kind === 'retry') {
      pending.isQueued = false;
      pending.deadlineMs = this.#clock.monotonicMs() + settlement.delayMs;
      this.#arm(pending.deadlineMs);
    } else {
      this.#pending.delete(streamSequence);
      if (settlement.kind === 'terminate') {
        this.#advise({ kind: 'terminated', ...pick(delivery), reason: settlement.reason });
      }
    }
  }

  /** Says that the handler still works on it: another ack wait from now. */
  extend(streamSequence: number): void {
    const pending = this.#pending.get(streamSequence);
    if (pending) pending.deadlineMs = this.#clock.monotonicMs() + this.spec.ackWaitMs;
  }

  /** While its server is away, nothing is delivered and nothing settled. */
  setInterrupted(isInterrupted: boolean): void {
    this.#isInterrupted = isInterrupted;
    this.#pump();
  }

  statistics(): ConsumerStatistics {
    const { stream, durable } = this.spec;
    return { stream, durable, delivered: this.#deliverySequence, waiting: this.#waiting, inWork: this.#pending.size };
  }

  /**
   * As if it had been deleted and made anew: by a replica, from behind the message up to which all are settled, or by
   * setup, which knows nothing of that, from the first one.
   */
  recreate(by: 'replica' | 'setup' = 'replica'): void {
    const floor = Math.min(this.#lastDelivered, ...this.#pending.keys().map((sequence) => sequence - 1));
    this.#lastDelivered = by === 'replica' ? floor : 0;
    this.#pending.clear();
    this.#redeliveries = [];
    this.#deliverySequence += 2; // nobody may believe that this is the old count going on
    this.#fillQueue();
    this.#pump();
  }

  /** Delivers what can be delivered, soon: nobody is called from within its own call. */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    queueMicrotask(() => {
      this.#isPumping = false;
      while (this.#deliverNext());
    });
  }

  #deliverNext(): boolean {
    if (this.#callers.length === 0 || this.#isInterrupted) return false;
    const message = this.#nextRedelivery() ?? this.#nextNew();
    if (!message) return false;
    const caller = this.#takeTurn();
    if (!caller) return false;
    this.#markDelivered(message);
    const { deliveryCount } = this.#pending.get(message.streamSequence) as Pending;
    caller.deliver({
      ...message,
      deliverySequence: this.#deliverySequence,
      deliveryCount,
      pending: this.#waiting,
    });
    return true;
  }

  #nextRedelivery(): StoredMessage | undefined {
    for (;;) {
      const sequence = this.#redeliveries[0];
      if (sequence === undefined) return undefined;
      const pending = this.#pending.get(sequence);
      if (pending?.isQueued) {
        const message = this.#stream.get(sequence);
        if (message && pending.deliveryCount < this.spec.maxDeliver) return message;
        this.#pending.delete(sequence);
        if (message) this.#advise({ kind: 'max-deliveries', streamSequence: sequence, ...pending });
      }
      this.#redeliveries.shift();
    }
  }

  #nextNew(): StoredMessage | undefined {
    if (this.#pending.size >= this.spec.maxAckPending) return undefined;
    while (this.#head < this.#queue.length) {
      const message = this.#stream.get(this.#queue[this.#head] as number);
      if (message) return message;
      this.#head++;
    }
    return undefined;
  }

  #markDelivered({ streamSequence }: StoredMessage): void {
    const deadlineMs = this.#clock.monotonicMs() + this.spec.ackWaitMs;
    const deliverySequence = ++this.#deliverySequence;
    const pending = this.#pending.get(streamSequence);
    if (pending) {
      this.#redeliveries.shift();
      Object.assign(pending, { deliverySequence, deadlineMs, isQueued: false });
      pending.deliveryCount++;
    } else {
      this.#head++;
      this.#waiting--;
      this.#lastDelivered = streamSequence;
      this.#pending.set(streamSequence, { deliverySequence, deliveryCount: 1, deadlineMs, isQueued: false });
      if (this.#head > QUEUE_SLACK && this.#head * 2 > this.#queue.length) {
        this.#queue.splice(0, this.#head);
        this.#head = 0;
      }
    }
    this.#arm(deadlineMs);
  }

  /** The next caller in turn that has a slot; the turn goes on behind it. */
  #takeTurn(): EmbeddedCaller | undefined {
    const index = this.#callers.findIndex((caller) => caller.canTake());
    if (index < 0) return undefined;
    const [caller] = this.#callers.splice(index, 1) as [EmbeddedCaller];
    this.#callers.push(caller);
    return caller;
  }

  #arm(dueMs: number): void {
    if (this.#timer && this.#timer.dueMs <= dueMs) return;
    this.#disarm();
    const handle = this.#clock.after(dueMs - this.#clock.monotonicMs(), () => this.#onDeadline());
    this.#timer = { dueMs, handle };
  }

  #disarm(): void {
    this.#timer?.handle.cancel();
    this.#timer = undefined;
  }

  #onDeadline(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.monotonicMs();
    let nextMs = Number.POSITIVE_INFINITY;
    const due: number[] = [];
    for (const [sequence, pending] of this.#pending) {
      if (pending.isQueued) continue;
      if (pending.deadlineMs > nowMs) nextMs = Math.min(nextMs, pending.deadlineMs);
      else {
        pending.isQueued = true;
        due.push(sequence);
      }
    }
    this.#redeliveries.push(...due.sort((a, b) => a - b));
    if (Number.isFinite(nextMs)) this.#arm(nextMs);
    if (due.length > 0) this.#pump();
  }

  #fillQueue(): void {
    this.#queue = [];
    this.#head = 0;
    for (const { streamSequence, subject } of this.#stream.messages()) {
      if (streamSequence > this.#lastDelivered && this.#matches(subject)) this.#queue.push(streamSequence);
    }
    this.#waiting = this.#queue.length;
  }

  #matches(subject: string): boolean {
    return this.spec.filterSubjects.some((filter) => subjectMatches(filter, subject));
  }
}

function pick({ streamSequence, deliverySequence, deliveryCount }: Delivery) {
  return { streamSequence, deliverySequence, deliveryCount };
}
