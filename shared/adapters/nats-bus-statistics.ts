import { jetstreamManager } from '@nats-io/jetstream';
import { STREAMS, type StreamName } from '../domain/topology.ts';
import type { BusStatistics, ConsumerStatistics } from '../ports/bus-statistics.ts';
import { API_TIMEOUT_MS } from './nats-config.ts';
import { busErrorOf } from './nats-errors.ts';
import type { NatsLink } from './nats-link.ts';

/** {@link BusStatistics} of NATS JetStream, by information calls only. */
export class NatsBusStatistics implements BusStatistics {
  readonly #link: NatsLink;
  readonly #streams: readonly StreamName[];

  /** @param streams - with consumers of functions; left out: all of the topology */
  constructor(link: NatsLink, streams: readonly StreamName[] = STREAMS.map(({ name }) => name)) {
    this.#link = link;
    this.#streams = streams;
  }

  async read(): ReturnType<BusStatistics['read']> {
    try {
      const manager = await jetstreamManager(this.#link.connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
      const consumers: ConsumerStatistics[] = [];
      for (const stream of this.#streams) {
        for await (const { name, delivered, num_pending, num_ack_pending } of manager.consumers.list(stream)) {
          const counts = { delivered: delivered.consumer_seq, waiting: num_pending, inWork: num_ack_pending };
          consumers.push({ stream, durable: name, ...counts });
        }
      }
      const { state } = await manager.streams.info('DEAD_LETTERS');
      return { consumers, deadLetters: state.messages };
    } catch (error) {
      throw busErrorOf('statistics of streams and consumers', error);
    }
  }
}
