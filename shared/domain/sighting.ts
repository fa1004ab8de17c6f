import type { ConnectionValue } from './connection.ts';
import type { Observation } from './observation.ts';
import type { RttStatistics } from './rtt-statistics.ts';

/** One instant on both clocks: `monotonicMs` since the run began decides, `unixMs` is a label. */
export type Moment = { readonly monotonicMs: number; readonly unixMs: number };

/** An {@link Observation} before it has an epoch and a text for its instant. */
export type Sighting = Omit<Observation, 'namespace' | 'connection' | 'gatewayEpoch' | 'observedAt' | 'coalesced'> & {
  readonly observedAtUnixMs: number;
};

/** Whose sightings go where, and from which sequence on. */
export type TunnelVoice = {
  readonly interfaceId: string;
  /** 0 if nothing was said of this interface in this run. */
  readonly lastSequence: number;
  readonly emit: (sighting: Sighting) => void;
};

/** What is known of a tunnel at one instant. */
export type ProbeSnapshot = RttStatistics & {
  readonly interfaceId: string;
  readonly value: ConnectionValue;
  readonly reason?: string;
  readonly message?: string;
  readonly consecutiveMisses: number;
  /** When `value` last changed; absent before the first change. */
  readonly transitionedAtUnixMs?: number;
  readonly transitions: number;
  readonly pingsSent: number;
  readonly pongsReceived: number;
  /** PINGs that were not sent, by error code. */
  readonly sendErrors: Readonly<Record<string, number>>;
  /** How late after their instants deadlines were judged since the snapshot before. */
  readonly deadlineDeviationsMs: readonly number[];
};
