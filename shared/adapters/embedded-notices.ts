import type { BusMessage } from '../domain/cloud-event.ts';
import { subjectMatches } from '../domain/subject-pattern.ts';
import type { Notices } from '../ports/notices.ts';
import type { EmbeddedBroker } from './embedded-broker.ts';

/** {@link Notices} beside a broker: all who share one hear each other, unless the broker is away. */
export class EmbeddedNotices implements Notices {
  readonly #broker: EmbeddedBroker;
  readonly #listeners = new Set<(message: BusMessage) => void>();

  constructor(broker: EmbeddedBroker) {
    this.#broker = broker;
  }

  tell(message: BusMessage): void {
    if (this.#broker.outage !== undefined) return;
    for (const listener of this.#listeners) listener(message);
  }

  hear(filter: string, onMessage: (message: BusMessage) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    const listener = (message: BusMessage) => {
      if (subjectMatches(filter, message.subject)) onMessage(message);
    };
    this.#listeners.add(listener);
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true });
  }
}
