import type { EventPlace } from '../domain/event-place.ts';
import type { StreamName } from '../domain/topology.ts';
import type { StoredMessage } from './event-bus.ts';

export type HistoryQuery = {
  readonly stream: StreamName;
  /** In the stored form, wildcards allowed; left out: all subjects. */
  readonly filter?: string;
  /** The first message is the first one at or after this. */
  readonly from: { readonly sequence: number } | { readonly unixMs: number };
};

/** What the streams keep, read by direct get: nothing of the server changes by it. All calls may reject with BusError. */
export interface EventHistory {
  /** Where the first and the last message stand that the stream keeps; `undefined` while it is empty. */
  bounds(stream: StreamName): Promise<{ readonly first: EventPlace; readonly last: EventPlace } | undefined>;
  /**
   * In their order, in batches, as far as there are any now. Who goes on later with the sequence after the last one
   * misses none and gets none twice.
   */
  read(query: HistoryQuery, signal: AbortSignal): AsyncIterable<readonly StoredMessage[]>;
}
