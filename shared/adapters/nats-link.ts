import type { NatsConnection, Status } from 'nats';
import { connect } from 'nats';
import type { Clock } from '../ports/clock.ts';
import type { BusHealth } from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';
import type { Logger } from '../ports/telemetry.ts';
import { connectionOptions, type NatsOptions } from './nats-options.ts';

/** Who uses the link. Each is told of what is so already when it attaches. */
export type LinkUser = {
  /** There is a connection (it resubscribes by itself when it reconnects); mostly once in a process. */
  opened?(connection: NatsConnection): void;
  /** It is connected now. */
  up?(connection: NatsConnection): void;
  /** It is not any more: requests on their way will get no answer. */
  down?(reason: string): void;
  /** The server refused something, such as a subject that the user may not publish to. */
  refused?(error: Error): void;
};

const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 2_000;
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * The connection to NATS: opened in the background, kept for ever, given up only by `close`. Nothing is queued while
 * it is down: what cannot be sent is refused, since the client would lose it.
 */
export class NatsLink {
  readonly #options: NatsOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #users = new Set<LinkUser>();
  readonly #healthListeners = new Set<(health: BusHealth) => void>();
  /** Reasons by what they are about: the link itself first, then its users' troubles. */
  readonly #problems = new Map<string, string>();
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  #connection: NatsConnection | undefined;
  #isUp = false;

  private constructor(options: NatsOptions, clock: Clock, log: Logger) {
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#problems.set('link', `not connected yet to ${options.servers.join(', ')}`);
    this.#ended = this.#keepConnected();
  }

  /** Returns at once; see {@link whenUp} for the first connection. */
  static open(options: NatsOptions, clock: Clock, log: Logger): NatsLink {
    return new NatsLink(options, clock, log);
  }

  /**
   * The connection, if it is up.
   *
   * @throws BusError `unavailable` with the reason while it is not.
   */
  get connection(): NatsConnection {
    if (this.#connection && this.#isUp) return this.#connection;
    throw new BusError('unavailable', this.#problems.get('link') ?? 'not connected');
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Resolves with the connection as soon as it is up; rejects with the signal's reason, or `unavailable` on close. */
  whenUp(signal?: AbortSignal): Promise<NatsConnection> {
    return new Promise((resolve, reject) => {
      const stop = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
      const onStop = () => {
        detach();
        reject(signal?.aborted ? signal.reason : new BusError('unavailable', 'the connection is closed'));
      };
      const user: LinkUser = {
        up: (connection) => {
          stop.removeEventListener('abort', onStop);
          queueMicrotask(() => detach());
          resolve(connection);
        },
      };
      const detach = () => this.detach(user);
      if (stop.aborted) return onStop();
      stop.addEventListener('abort', onStop, { once: true });
      this.attach(user);
    });
  }

  attach(user: LinkUser): void {
    this.#users.add(user);
    if (!this.#connection) return;
    user.opened?.(this.#connection);
    if (this.#isUp) user.up?.(this.#connection);
  }

  detach(user: LinkUser): void {
    this.#users.delete(user);
  }

  health(): BusHealth {
    for (const reason of this.#problems.values()) return { connected: false, reason };
    return { connected: true };
  }

  onHealthChange(listener: (health: BusHealth) => void): () => void {
    this.#healthListeners.add(listener);
    return () => this.#healthListeners.delete(listener);
  }

  /** States, or with `undefined` takes back, why something does not work although the link may be up. */
  setProblem(about: string, reason: string | undefined): void {
    const wasConnected = this.#problems.size === 0;
    if (reason === undefined) this.#problems.delete(about);
    else this.#problems.set(about, reason);
    const health = this.health();
    if (wasConnected === health.connected) return;
    if (health.connected) this.#log.info({}, 'bus connected');
    else this.#log.warn({ reason: health.reason }, 'bus not connected');
    for (const listener of this.#healthListeners) listener(health);
  }

  /** Sends what is buffered, within a bound, and closes; idempotent. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return this.#ended;
    const connection = this.#connection;
    if (connection && this.#isUp) await this.#bounded(connection.flush());
    this.#closing.abort();
    this.#setDown('the connection is closed');
    if (connection) await this.#bounded(connection.close());
    await this.#ended;
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#closing;
    let retryMs = FIRST_RETRY_MS;
    while (!signal.aborted) {
      try {
        await this.#useOneConnection(await connect(connectionOptions(this.#options)));
        retryMs = FIRST_RETRY_MS;
      } catch (error) {
        this.#setDown(`cannot connect to ${this.#options.servers.join(', ')}: ${(error as Error).message}`);
        await this.#clock.sleep(retryMs, signal).catch(() => {});
        retryMs = Math.min(2 * retryMs, MAX_RETRY_MS);
      }
    }
    this.#connection = undefined;
    this.#setDown('the connection is closed');
  }

  /** Until it is closed; it reconnects by itself as long as it lives. */
  async #useOneConnection(connection: NatsConnection): Promise<void> {
    if (this.#closing.signal.aborted) return connection.close();
    this.#connection = connection;
    const statuses = connection.status();
    for (const user of this.#users) user.opened?.(connection);
    this.#setUp(connection);
    for await (const status of statuses) this.#onStatus(connection, status);
    const error = await connection.closed();
    this.#connection = undefined;
    if (!this.#closing.signal.aborted) throw error ?? new Error('the client closed the connection');
  }

  #onStatus(connection: NatsConnection, status: Status): void {
    switch (status.type) {
      case 'disconnect':
        this.#setDown(`lost the connection to ${status.server}`);
        break;
      case 'reconnect':
        this.#setUp(connection);
        break;
      case 'error':
        this.#log.warn({ err: status.error }, 'nats refused');
        if (!this.#isUp)
          this.setProblem('link', `refused by ${this.#options.servers.join(', ')}: ${status.error.message}`);
        for (const user of this.#users) user.refused?.(status.error);
    }
  }

  #setUp(connection: NatsConnection): void {
    this.#isUp = true;
    this.setProblem('link', undefined);
    for (const user of this.#users) user.up?.(connection);
  }

  #setDown(reason: string): void {
    const wasUp = this.#isUp;
    this.#isUp = false;
    this.setProblem('link', reason);
    if (wasUp) for (const user of this.#users) user.down?.(reason);
  }

  async #bounded(work: Promise<unknown>): Promise<void> {
    const done = new AbortController();
    const settled = work.catch(() => {}).finally(() => done.abort());
    await Promise.race([settled, this.#clock.sleep(CLOSE_TIMEOUT_MS, done.signal).catch(() => {})]);
  }
}
