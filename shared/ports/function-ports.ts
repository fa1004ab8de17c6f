import type { Clock } from './clock.ts';
import type { ChangeFeed, ConnectionStore } from './connection-store.ts';
import type { EventBus } from './event-bus.ts';
import type { StateStore } from './state-store.ts';
import type { Logger, Meter } from './telemetry.ts';

/** All that a function may touch. A composition root fills it with real or embedded parts. */
export type FunctionPorts = {
  readonly bus: EventBus;
  readonly state: StateStore;
  readonly connections: ConnectionStore;
  readonly feed: ChangeFeed;
  readonly clock: Clock;
  readonly meter: Meter;
  readonly log: Logger;
};
