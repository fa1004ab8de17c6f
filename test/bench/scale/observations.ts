import { setTimeout as sleep } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { tunnelStatus } from '../../../functions/tunnel-status/handler.ts';
import { launchNats, type NatsServer } from '../../../infra/servers/launch-nats.ts';
import { NatsBus } from '../../../shared/adapters/nats-bus.ts';
import { setupBus } from '../../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../../shared/adapters/system-clock.ts';
import type { BusMessage } from '../../../shared/domain/cloud-event.ts';
import type { Decision } from '../../../shared/domain/decision.ts';
import type { StreamName } from '../../../shared/domain/topology.ts';
import { BusError } from '../../../shared/ports/event-bus.ts';
import { SETUP_FOR_TESTS } from '../../support/nats-harness.ts';
import { silentLogger } from '../../support/silent-logger.ts';

/** Publishes in flight at once, as the gateway's outbox has them. */
const WINDOW = 512;
const POLL_MS = 20;

/** A nats-server with the streams and tunnel-status's consumers, and the gateways' end of it. */
export class Observations implements AsyncDisposable {
  readonly server: NatsServer;
  /** Messages that the stream took. */
  published = 0;
  readonly #bus: NatsBus;
  readonly #closing = new AbortController();
  #publishedMs: Map<string, number> | undefined;

  private constructor(server: NatsServer, bus: NatsBus) {
    this.server = server;
    this.#bus = bus;
  }

  static async open(): Promise<Observations> {
    const server = await launchNats();
    const bus = NatsBus.open({ servers: [server.url], name: 'bench-gateways' }, systemClock, silentLogger);
    const connection = await bus.link.whenUp();
    const consumers = 'consumers' in tunnelStatus.manifest ? tunnelStatus.manifest.consumers : [];
    await setupBus(connection, SETUP_FOR_TESTS(consumers));
    return new Observations(server, bus);
  }

  /**
   * Resolves when the server has them all.
   *
   * @param perSecond - spread evenly. @defaultValue as fast as the server takes them
   * @returns how long after its time the last one was there, in ms
   */
  async publish(messages: Iterable<BusMessage>, perSecond = Number.POSITIVE_INFINITY): Promise<number> {
    const startMs = performance.now();
    const source = messages[Symbol.iterator]();
    let taken = 0;
    const publishInTurn = async () => {
      for (let next = source.next(); !next.done; next = source.next()) {
        const aheadMs = startMs + (++taken / perSecond) * 1_000 - performance.now();
        if (aheadMs > 1) await sleep(aheadMs);
        await this.#publish(next.value);
      }
    };
    await Promise.all(Array.from({ length: WINDOW }, publishInTurn));
    return Math.max(0, performance.now() - startMs - (taken / perSecond) * 1_000);
  }

  /**
   * From now on: how long each written transition took from the publish of its observation to its decision, in ms.
   * Grows as decisions come.
   */
  transitionTimes(): readonly number[] {
    const tookMs: number[] = [];
    const publishedMs = new Map<string, number>();
    this.#publishedMs = publishedMs;
    const onDecision = ({ data }: { readonly data: Uint8Array }) => {
      const { reason, eventId } = JSON.parse(Buffer.from(data).toString('utf8')) as Decision;
      const startMs = publishedMs.get(eventId);
      if (reason === 'Transition' && startMs !== undefined) tookMs.push(performance.now() - startMs);
    };
    this.#bus.subscribe('live.decisions.>', onDecision, this.#closing.signal);
    return tookMs;
  }

  /** Events that no handler has settled yet, by the server's own count. */
  async waiting(): Promise<number> {
    const manager = await jetstreamManager(this.#bus.link.connection, { checkAPI: false });
    let sum = 0;
    for await (const { num_pending, num_ack_pending } of manager.consumers.list('OBSERVATIONS')) {
      sum += num_pending + num_ack_pending;
    }
    return sum;
  }

  /** What a stream counts for a message, headers and subject included, before it is compressed. */
  async bytesPerMessage(stream: StreamName): Promise<number> {
    const manager = await jetstreamManager(this.#bus.link.connection, { checkAPI: false });
    const { state } = await manager.streams.info(stream);
    return state.bytes / state.messages;
  }

  /** @throws Error if handlers have not settled everything in time */
  async untilSettled(limitMs: number): Promise<void> {
    const endMs = performance.now() + limitMs;
    for (let left = await this.waiting(); left > 0; left = await this.waiting()) {
      if (performance.now() > endMs) throw new Error(`${left} events were not settled within ${limitMs} ms`);
      await sleep(POLL_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#bus.close();
    await this.server[Symbol.asyncDispose]();
  }

  async #publish(message: BusMessage): Promise<void> {
    this.#publishedMs?.set(message.headers['ce-id'] ?? '', performance.now());
    for (;;) {
      try {
        await this.#bus.publish(message);
        this.published += 1;
        return;
      } catch (error) {
        if (!(error instanceof BusError) || error.code === 'denied') throw error; // else again: same id, stored once
      }
    }
  }
}
