import type { BusMessage } from '../domain/cloud-event.ts';

/** A copy that a stream republished as it stored the message: at most once, nothing is kept for who is away. */
export type LiveMessage = BusMessage & {
  readonly stream: string;
  readonly streamSequence: number;
  /** Sequence of the message before this one on its subject, 0 for the first: a gap detector. */
  readonly previousSequence: number;
  readonly storedAtUnixMs: number;
};

/** Republished subjects (`live.…`), for pages and for people. */
export interface LiveFeed {
  /**
   * Calls `onMessage` for each copy whose subject matches `filter` (wildcards allowed), until `signal` aborts.
   * Survives lost connections; what was said meanwhile shows as a gap in `previousSequence`.
   */
  subscribe(filter: string, onMessage: (message: LiveMessage) => void, signal: AbortSignal): void;
}
