import type { Connection } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import type { PingSettings } from '../../shared/domain/ping-settings.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';

/** Two gateways, each in its own namespace with its own Connection, joined by parallel tunnels, and all functions. */
export type LabOptions = {
  /** 1 … 64. */
  readonly tunnels: number;
  /** Replicas of every function. */
  readonly replicas: number;
  readonly ping: PingSettings;
  readonly functions: FunctionSettings;
  readonly log: Logger;
};

/** The two sides; `server` and `client` name the modes of their gateways. */
export const LAB_GATEWAYS = [
  { namespace: 'liqo-tenant-milan', name: 'milan', mode: 'server', clusterId: 'rome' },
  { namespace: 'liqo-tenant-rome', name: 'rome', mode: 'client', clusterId: 'milan' },
] as const;

/** The same on embedded and on real parts, so that the same scenario runs on both. */
export interface Lab extends AsyncDisposable {
  /** Both Connections as the API shows them now, in the order of {@link LAB_GATEWAYS}; a missing one is left out. */
  connections(): Promise<readonly Connection[]>;
  /** Drops all traffic of a tunnel, both ways, until {@link restore}. */
  cut(interfaceId: string): Promise<void>;
  restore(interfaceId: string): Promise<void>;
  /** Makes both gateways run this many tunnels. */
  scale(tunnels: number): Promise<void>;
  /** Ends one replica of a function without warning and starts another in its place. */
  crash(functionName: string): Promise<void>;
  /** Stops everything; says how many observations could not be delivered. */
  stop(): Promise<{ readonly unsent: number }>;
}
