import type { BusMessage } from '../domain/cloud-event.ts';

/** What is said once, to whoever listens just then: no stream keeps it, nobody acknowledges it. */
export interface Notices {
  /** While the bus is away, nobody hears it. */
  tell(message: BusMessage): void;
  /** Calls `onMessage` for each notice whose subject matches `filter` (wildcards allowed), until `signal` aborts. */
  hear(filter: string, onMessage: (message: BusMessage) => void, signal: AbortSignal): void;
}
