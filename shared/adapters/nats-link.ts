import type { NatsConnection } from 'nats';
import { connect } from 'nats';
import type { Clock } from '../ports/clock.ts';
import type { BusHealth } from '../ports/event-bus.ts';
import { BusError } from '../ports/event-bus.ts';
import type { Logger } from '../ports/telemetry.ts';
import type { LinkUser } from './nats-link-user.ts';
import { connectionOptions, type NatsOptions } from './nats-options.ts';
import { NatsRequests } from './nats-requests.ts';

const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 500;
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
  /** Reasons by what they are about: the link itself, and its users' troubles. */
  readonly #problems = new Map<string, string>();
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  #connection: NatsConnection | undefined;
  /** For who asks and publishes; all share one reply subject, which is there before anybody else uses the link. */
  readonly requests: NatsRequests;

  private constructor(options: NatsOptions, clock: Clock, log: Logger) {
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#problems.set('link', `not connected yet to ${options.servers.join(', ')}`);
    this.requests = new NatsRequests(this, clock, options.inboxPrefix);
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
    if (this.#connection) return this.#connection;
    throw new BusError('unavailable', this.#problems.get('link') ?? 'not connected');
  }

  get isUp(): boolean {
    return this.#connection !== undefined;
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
    if (this.#connection) user.up?.(this.#connection);
  }

  detach(user: LinkUser): void {
    this.#users.delete(user);
  }

  health(): BusHealth {
    const [reason] = [this.#problems.get('link'), ...this.#problems.values()].filter((text) => text !== undefined);
    return reason === undefined ? { connected: true } : { connected: false, reason };
  }

  onHealthChange(listener: (health: BusHealth) => void): () => void {
    this.#healthListeners.add(listener);
    return () => this.#healthListeners.delete(listener);
  }

  /** States, or with `undefined` takes back, why something does not work although the link may be up. */
  setProblem(about: string, reason: string | undefined): void {
    const wasConnected = this.#problems.size === 0;
    if (reason !== undefined) this.#problems.set(about, reason);
    else if (!this.#problems.delete(about)) return;
    const health = this.health();
    if (wasConnected === health.connected) return;
    if (health.connected) this.#log.info({}, 'bus connected');
    else if (!this.#closing.signal.aborted) this.#log.warn({ reason: health.reason }, 'bus not connected');
    for (const listener of this.#healthListeners) listener(health);
  }

  /** Sends what is buffered, within a bound, and closes; idempotent. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return this.#ended;
    const connection = this.#connection;
    if (connection) await this.#bounded(Promise.race([connection.flush(), connection.closed()]));
    this.#closing.abort();
    this.#setDown('the connection is closed');
    if (connection) await this.#bounded(connection.close());
    await this.#ended;
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#closing;
    const servers = this.#options.servers.join(', ');
    let retryMs = FIRST_RETRY_MS;
    while (!signal.aborted) {
      try {
        const connection = await connect(connectionOptions(this.#options));
        retryMs = FIRST_RETRY_MS;
        await this.#use(connection);
      } catch (error) {
        this.setProblem('link', `cannot connect to ${servers}: ${(error as Error).message}`);
      }
      await this.#clock.sleep(retryMs, signal).catch(() => {});
      retryMs = Math.min(2 * retryMs, MAX_RETRY_MS);
    }
    this.setProblem('link', 'the connection is closed');
  }

  /** Until it is closed, by whomever. */
  async #use(connection: NatsConnection): Promise<void> {
    if (this.#closing.signal.aborted) return connection.close();
    const server = connection.getServer();
    const statuses = connection.status();
    this.#connection = connection;
    try {
      for (const user of this.#users) user.up?.(connection);
      this.setProblem('link', undefined); // last: a listener may publish at once, and who hears of acknowledgements must be there
      for await (const status of statuses) {
        if (status.type === 'error') this.#onRefused(status.error);
        else if (status.type === 'disconnect') this.#setDown(`lost the connection to ${server}`);
      }
    } finally {
      this.#setDown(`lost the connection to ${server}`); // also where a user found it closed already
    }
  }

  #onRefused(error: Error): void {
    this.#log.warn({ reason: error.message }, 'refused by nats');
    for (const user of this.#users) user.refused?.(error);
  }

  #setDown(reason: string): void {
    if (!this.#connection) return;
    this.#connection = undefined;
    this.setProblem('link', reason);
    for (const user of this.#users) user.down?.(reason);
  }

  async #bounded(work: Promise<unknown>): Promise<void> {
    const done = new AbortController();
    const settled = work.catch(() => {}).finally(() => done.abort());
    await Promise.race([settled, this.#clock.sleep(CLOSE_TIMEOUT_MS, done.signal).catch(() => {})]);
  }
}
