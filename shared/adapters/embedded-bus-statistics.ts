import type { BusStatistics } from '../ports/bus-statistics.ts';
import type { EmbeddedBroker } from './embedded-broker.ts';

/** {@link BusStatistics} of an {@link EmbeddedBroker}. */
export class EmbeddedBusStatistics implements BusStatistics {
  readonly #broker: EmbeddedBroker;

  constructor(broker: EmbeddedBroker) {
    this.#broker = broker;
  }

  async read(): ReturnType<BusStatistics['read']> {
    return {
      consumers: this.#broker.statistics(),
      deadLetters: [...this.#broker.messages('DEAD_LETTERS')].length,
    };
  }
}
