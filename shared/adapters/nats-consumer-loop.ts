import type { Msg, NatsConnection, Subscription } from 'nats';
import { createInbox, errors, nanos } from 'nats';
import type { ConsumerSpec } from '../domain/topology.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import type { Delivery, Settlement } from '../ports/event-bus.ts';
import type { Logger } from '../ports/telemetry.ts';
import { ConsumerRecovery } from './nats-consumer-recovery.ts';
import type { NatsLink } from './nats-link.ts';
import type { LinkUser } from './nats-link-user.ts';
import { toDelivery } from './nats-message.ts';
import { PRIORITY_GROUP, PullPriority } from './nats-pull-priority.ts';
import { settlementOf } from './settlement.ts';
import { WorkingAcks } from './working-acks.ts';

/** Short pulls: the server stops feeding a frozen replica, and a lost pull is missed, within about this long. */
const PULL_EXPIRES_MS = 1_000;
/** How long after its expiry a pull that got no status counts as lost. */
const PULL_GRACE_MS = 500;
/** Size of a pull where one message at a time is in work: the server holds the next one back until the ack. */
const ORDERED_PULL = 100;
/** Where several are in work, slots are pulled for again when this part of them is uncovered. */
const REFILL_PART = 4;
const FIRST_BACKOFF_MS = 50;
const MAX_BACKOFF_MS = 1_000;
/** Added to delivery sequences whenever somebody else may have got an event, or the consumer may be a new one. */
const DISCONTINUITY = 2 ** 32;

const encoder = new TextEncoder();
const ACK = encoder.encode('+ACK');
const NAK = encoder.encode('-NAK');
const IN_PROGRESS = encoder.encode('+WPI');

export type ConsumerLoopOptions = {
  readonly link: NatsLink;
  readonly spec: ConsumerSpec;
  readonly handle: (delivery: Delivery) => Promise<Settlement>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly inboxPrefix: string | undefined;
};

/**
 * Pulls from one durable consumer over one reply subject. Only slots that are free are pulled for, so nothing waits
 * here while its ack wait runs. Whatever goes wrong ends in a back-off, a look at the consumer, and another pull.
 */
export class NatsConsumerLoop {
  readonly #options: ConsumerLoopOptions;
  readonly #problem: string;
  readonly #link: NatsLink;
  readonly #inWork: WorkingAcks;
  readonly #priority: PullPriority;
  readonly #recovery: ConsumerRecovery;
  /** Settlements that the link was down for. */
  readonly #unsent: { readonly reply: string; readonly answer: Uint8Array }[] = [];
  readonly #end = Promise.withResolvers<void>();
  #subscription: Subscription | undefined;
  #inbox = '';
  /** Messages that the server may still send for pulls it has. */
  #requested = 0;
  #watchdog: Timer | undefined;
  #lastPullMs = 0;
  #recovering = false;
  #backoffMs = FIRST_BACKOFF_MS;
  #sequenceOffset = 0;
  #hasDelivered = false;
  #isTroubled = false;
  #isStopping = false;
  /** The server sends nothing more. */
  #isDrained = false;

  constructor(options: ConsumerLoopOptions) {
    this.#options = options;
    this.#link = options.link;
    this.#priority = new PullPriority(options.clock, ORDERED_PULL);
    this.#recovery = new ConsumerRecovery(options.spec, options.clock);
    this.#problem = `consumer ${options.spec.stream}/${options.spec.durable}`;
    this.#inWork = new WorkingAcks(options.clock, options.spec.ackWaitMs);
  }

  /** Resolves once the signal has aborted and what is in work is settled. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const user: LinkUser = {
      up: (connection) => this.#onUp(connection),
      down: () => this.#onDown(),
      refused: (error) => this.#onRefused(error),
    };
    const onAbort = () => void this.#stop();
    signal.addEventListener('abort', onAbort, { once: true });
    this.#link.attach(user);
    await this.#end.promise;
    signal.removeEventListener('abort', onAbort);
    this.#link.detach(user);
    this.#link.setProblem(this.#problem, undefined);
  }

  /** Ends at once and leaves what is in work unsettled, for when the connection is closed under it. */
  abandon(): void {
    this.#isStopping = true;
    this.#watchdog?.cancel();
    this.#inWork.stop();
    this.#subscription?.unsubscribe();
    this.#end.resolve();
  }

  #listen(connection: NatsConnection): void {
    this.#inbox = createInbox(this.#options.inboxPrefix);
    this.#subscription = connection.subscribe(this.#inbox, {
      callback: (error, message) => {
        if (error) this.#fail(`${this.#problem}: ${error.message}`);
        else if (message.reply) this.#onMessage(message);
        else this.#onStatus(message);
      },
    });
  }

  #onUp(connection: NatsConnection): void {
    this.#listen(connection);
    for (const { reply, answer } of this.#unsent.splice(0)) connection.publish(reply, answer);
    this.#backoffMs = FIRST_BACKOFF_MS;
    this.#pull();
  }

  #onDown(): void {
    this.#forgetPulls();
    this.#breakContinuity();
  }

  /** The user may not pull, or not settle: nothing but other permissions helps, and they may come with a reconnect. */
  #onRefused(error: Error): void {
    const { stream, durable } = this.#options.spec;
    if (!(error instanceof errors.PermissionViolationError) || error.operation !== 'publish') return;
    if (`${error.subject}.`.includes(`.${stream}.${durable}.`)) this.#fail(`${this.#problem}: ${error.message}`);
  }

  #fail(reason: string): void {
    this.#isTroubled = true;
    this.#link.setProblem(this.#problem, reason);
    void this.#recover(reason);
  }

  #pull(): void {
    const { spec } = this.#options;
    if (this.#isStopping || this.#recovering || !this.#link.isUp) return;
    const size = spec.maxAckPending === 1 ? ORDERED_PULL : spec.maxAckPending - this.#inWork.size;
    const uncovered = size - this.#requested;
    if (this.#requested > 0 && uncovered < size / REFILL_PART) return;
    if (uncovered <= 0) return;
    const request = {
      batch: uncovered,
      expires: nanos(PULL_EXPIRES_MS),
      ...(spec.maxAckPending === 1 && { group: PRIORITY_GROUP, priority: this.#priority.current }),
    };
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${spec.stream}.${spec.durable}`;
    this.#requested += uncovered;
    this.#lastPullMs = this.#options.clock.monotonicMs();
    this.#link.connection.publish(subject, JSON.stringify(request), { reply: this.#inbox });
    void this.#recovery.look(this.#link.connection);
    this.#watchdog ??= this.#options.clock.after(PULL_EXPIRES_MS + PULL_GRACE_MS, this.#onWatchdog);
  }

  readonly #onWatchdog = () => {
    this.#watchdog = undefined;
    if (this.#requested === 0 || this.#isStopping) return;
    const leftMs = this.#lastPullMs + PULL_EXPIRES_MS + PULL_GRACE_MS - this.#options.clock.monotonicMs();
    if (leftMs > 0) this.#watchdog = this.#options.clock.after(leftMs, this.#onWatchdog);
    else void this.#recover('a pull got no answer');
  };

  #onMessage(message: Msg): void {
    this.#requested = Math.max(0, this.#requested - 1);
    if (this.#isStopping) {
      message.respond(NAK); // another replica gets it now instead of after the ack wait
      return;
    }
    this.#markHealthy();
    const received = toDelivery(message, this.#options.spec.stream);
    // A message that is redelivered to the handler that holds it: that one will settle it.
    if (!this.#inWork.has(received.streamSequence)) {
      if (this.#inWork.size < this.#options.spec.maxAckPending) void this.#work(received, message.reply ?? '');
      else message.respond(NAK);
    }
    this.#pull();
  }

  async #work(received: Delivery, reply: string): Promise<void> {
    const { streamSequence } = received;
    this.#inWork.add(streamSequence, () => {
      if (this.#link.isUp) this.#link.connection.publish(reply, IN_PROGRESS);
    });
    this.#hasDelivered = true;
    this.#priority.delivered(received.deliverySequence);
    const delivery = { ...received, deliverySequence: received.deliverySequence + this.#sequenceOffset };
    const settlement = await settlementOf(this.#options.handle, delivery);
    this.#inWork.remove(streamSequence);
    this.#answer(reply, answerOf(settlement));
    this.#priority.settled(settlement);
    if (settlement.kind !== 'retry') this.#recovery.settled(received);
    if (this.#isStopping) this.#endIfIdle();
    else this.#pull();
  }

  #answer(reply: string, answer: Uint8Array): void {
    if (this.#link.isUp) this.#link.connection.publish(reply, answer);
    else this.#unsent.push({ reply, answer });
  }

  #onStatus(message: Msg): void {
    const code = message.headers?.code ?? 0;
    const description = message.headers?.description ?? '';
    if (code === 408 || code === 404) {
      // The usual end of a pull; the header says how many of its messages did not come.
      const left = Number(message.headers?.get('Nats-Pending-Messages') || this.#requested);
      this.#requested = Math.max(0, this.#requested - left);
      this.#markHealthy();
      this.#pull();
    } else if (code >= 400) {
      void this.#recover(`${code} ${description || 'no responders'}`);
    }
  }

  /** Waits a little, has a look at the consumer, and pulls again; one at a time, until it works. */
  async #recover(reason: string): Promise<void> {
    if (this.#recovering || this.#isStopping) return;
    this.#recovering = true;
    this.#isTroubled = true;
    this.#forgetPulls();
    this.#breakContinuity();
    const { clock, log, spec } = this.#options;
    log.debug({ stream: spec.stream, consumer: spec.durable, reason }, 'pull refused');
    await clock.sleep(this.#backoffMs);
    this.#backoffMs = Math.min(2 * this.#backoffMs, MAX_BACKOFF_MS);
    let trouble: string | undefined;
    if (this.#link.isUp && !this.#isStopping) {
      if (this.#subscription?.isClosed()) this.#listen(this.#link.connection); // refused before, maybe not now
      trouble = await this.#recovery
        .mend(this.#link.connection)
        .catch((error: Error) => `${this.#problem}: ${error.message}`);
    }
    this.#recovering = false;
    if (trouble === undefined) this.#pull();
    else this.#fail(trouble);
  }

  async #stop(): Promise<void> {
    this.#isStopping = true;
    this.#forgetPulls();
    // Once the server has seen the unsubscription it sends nothing more; what was on its way is handed back.
    if (this.#link.isUp) {
      await Promise.race([this.#subscription?.drain().catch(() => {}), this.#link.connection.closed()]);
    }
    this.#isDrained = true;
    this.#endIfIdle();
  }

  #endIfIdle(): void {
    if (this.#inWork.size > 0 || !this.#isDrained) return;
    this.#inWork.stop();
    this.#end.resolve();
  }

  #markHealthy(): void {
    if (!this.#isTroubled) return;
    this.#isTroubled = false;
    this.#backoffMs = FIRST_BACKOFF_MS;
    this.#link.setProblem(this.#problem, undefined);
  }

  #forgetPulls(): void {
    this.#watchdog?.cancel();
    this.#watchdog = undefined;
    this.#requested = 0;
  }

  #breakContinuity(): void {
    if (this.#hasDelivered) this.#sequenceOffset += DISCONTINUITY;
    this.#hasDelivered = false;
  }
}

function answerOf(settlement: Settlement): Uint8Array {
  switch (settlement.kind) {
    case 'ack':
      return ACK;
    case 'retry':
      return encoder.encode(`-NAK ${JSON.stringify({ delay: nanos(settlement.delayMs) })}`);
    case 'terminate':
      return encoder.encode(`+TERM ${settlement.reason}`);
  }
}
