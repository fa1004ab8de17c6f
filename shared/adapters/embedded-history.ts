import type { EventPlace } from '../domain/event-place.ts';
import { subjectMatches } from '../domain/subject-pattern.ts';
import type { StreamName } from '../domain/topology.ts';
import type { StoredMessage } from '../ports/event-bus.ts';
import type { EventHistory, HistoryQuery } from '../ports/event-history.ts';
import type { EmbeddedBroker } from './embedded-broker.ts';

const BATCH = 1_000;

/** What the streams of an {@link EmbeddedBroker} keep. */
export class EmbeddedHistory implements EventHistory {
  readonly #broker: EmbeddedBroker;

  constructor(broker: EmbeddedBroker) {
    this.#broker = broker;
  }

  async bounds(stream: StreamName): Promise<{ first: EventPlace; last: EventPlace } | undefined> {
    const all = [...this.#broker.messages(stream)];
    const [first, last] = [all[0], all.at(-1)];
    return first && last && { first: placeOf(first), last: placeOf(last) };
  }

  async *read({ stream, filter, from }: HistoryQuery, signal: AbortSignal): AsyncGenerator<readonly StoredMessage[]> {
    // A copy: what is stored or dropped meanwhile does not disturb.
    const found = [...this.#broker.messages(stream)].filter(
      (message) =>
        ('sequence' in from ? message.streamSequence >= from.sequence : message.storedAtUnixMs >= from.unixMs) &&
        (filter === undefined || subjectMatches(filter, message.subject)),
    );
    for (let at = 0; at < found.length && !signal.aborted; at += BATCH) yield found.slice(at, at + BATCH);
  }
}

function placeOf({ streamSequence: sequence, storedAtUnixMs }: StoredMessage): EventPlace {
  return { sequence, storedAtUnixMs };
}
