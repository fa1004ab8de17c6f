import type { StreamName } from '../domain/topology.ts';

/** How far a durable consumer has come. */
export type ConsumerStatistics = {
  readonly stream: StreamName;
  readonly durable: string;
  /** Deliveries ever, repeated ones included. */
  readonly delivered: number;
  /** Messages that nobody got yet. */
  readonly waiting: number;
  /** Handed out and not settled. */
  readonly inWork: number;
};

/** What an operator asks of the bus; nothing of it changes by it. May reject with BusError. */
export interface BusStatistics {
  read(): Promise<{
    /** Those that exist. */
    readonly consumers: readonly ConsumerStatistics[];
    /** Messages in DEAD_LETTERS. */
    readonly deadLetters: number;
  }>;
}
