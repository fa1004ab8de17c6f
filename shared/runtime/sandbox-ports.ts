import type { Clock } from '../ports/clock.ts';
import { BusError, type EventBus } from '../ports/event-bus.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import type { StateEntry, StateStore } from '../ports/state-store.ts';
import type { Logger, Meter } from '../ports/telemetry.ts';
import { SandboxStore } from './sandbox-store.ts';

export type Sandbox = {
  readonly ports: FunctionPorts;
  readonly connections: SandboxStore;
  /** Moves the clock to the server's time of an event. */
  readonly setTime: (storedAtUnixMs: number) => void;
};

/**
 * What replayed functions get in place of the world: a clock that the recorded times drive, a perfect API, a state store,
 * and a bus that refuses. Nothing in here reaches anything outside.
 */
export function sandbox(): Sandbox {
  let nowMs = 0;
  const connections = new SandboxStore();
  const clock: Clock = {
    monotonicMs: () => nowMs,
    unixMs: () => nowMs,
    after: refuse('timer'),
    sleep: refuse('timer'),
  };
  const ports: FunctionPorts = {
    clock,
    connections,
    bus: REFUSING_BUS,
    state: stateInMemory(),
    feed: { run: refuse('change feed'), health: () => ({ live: false, reason: 'a replay has no change feed' }) },
    meter: NO_METER,
    log: NO_LOG,
  };
  return {
    ports,
    connections,
    // The server's wall clock may have been set back in between; no duration may become negative by that.
    setTime: (storedAtUnixMs) => {
      if (storedAtUnixMs > nowMs) nowMs = storedAtUnixMs;
    },
  };
}

function refuse(what: string): () => never {
  return () => {
    throw new BusError('denied', `a replay has no ${what}`);
  };
}

const REFUSING_BUS: EventBus = {
  publish: refuse('bus to publish to'),
  publishAfter: refuse('bus to publish to'),
  schedule: refuse('timer'),
  lastMessages: refuse('bus to read from'),
  consume: refuse('consumer'),
  health: () => ({ connected: true }),
  onHealthChange: () => () => {},
  close: async () => {},
};

/** Values are immutable here, so there is no need to copy them as a real bucket does. */
function stateInMemory(): StateStore {
  const entries = new Map<string, StateEntry>();
  let revision = 0;
  return {
    get: async (key) => entries.get(key),
    async put(key, value, expectedRevision) {
      const known = entries.get(key)?.revision ?? 0;
      if (expectedRevision !== undefined && expectedRevision !== known) return undefined;
      revision += 1;
      entries.set(key, { value, revision });
      return revision;
    },
    async delete(key) {
      entries.delete(key);
    },
  };
}

const NO_METER: Meter = { count() {}, gauge() {}, observe() {}, remove() {} };
const NO_LOG: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => NO_LOG };
