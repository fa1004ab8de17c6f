import type { Connection } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import type { PageLab } from '../../shared/domain/page-patch.ts';
import type { PingSettings } from '../../shared/domain/ping-settings.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import type { EventHistory } from '../../shared/ports/event-history.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';
import type { PageSources } from '../../shared/runtime/watch-page.ts';

/** Two gateways, each in its own namespace with its own Connection, joined by parallel tunnels, and all functions. */
export type LabOptions = {
  /** 1 … 64. */
  readonly tunnels: number;
  /** Replicas of every function. */
  readonly replicas: number;
  readonly ping: PingSettings;
  readonly functions: FunctionSettings;
  readonly log: Logger;
  /** Without it {@link Lab.stepClock} may be refused. @defaultValue false */
  readonly steppableClock?: boolean;
};

/** The two sides; `server` and `client` name the modes of their gateways. */
export const LAB_GATEWAYS = [
  { namespace: 'liqo-tenant-milan', name: 'milan', mode: 'server', clusterId: 'rome' },
  { namespace: 'liqo-tenant-rome', name: 'rome', mode: 'client', clusterId: 'milan' },
] as const;

/** What may happen to a tunnel's datagrams besides a cut. */
export type LabImpairment = {
  /** Part that is lost, 0 … 1. */
  readonly lossRate?: number;
  readonly delayMs?: number;
  /** Only those that this side sends; left out: both ways. */
  readonly from?: GatewayMode;
};

/** What somebody who watches a lab needs; it ends with the lab. */
export type LabSources = Pick<PageSources, 'live' | 'notices' | 'feed' | 'statistics'> & {
  readonly history: EventHistory;
};

/** What happens to a lab, and what shows: all that a scenario needs of it. */
export type ScenarioLab = Pick<
  Lab,
  | 'connections'
  | 'cut'
  | 'impair'
  | 'restore'
  | 'scale'
  | 'crash'
  | 'restartGateway'
  | 'setNats'
  | 'slowApi'
  | 'stepClock'
>;

/** The same on embedded and on real parts, so that the same scenario runs on both. */
export interface Lab extends AsyncDisposable {
  /** Both Connections as the API shows them now, in the order of {@link LAB_GATEWAYS}; a missing one is left out. */
  connections(): Promise<readonly Connection[]>;
  /** Drops all traffic of a tunnel, both ways, until {@link restore}. */
  cut(interfaceId: string): Promise<void>;
  /** Takes the place of an earlier one of the same tunnel; a cut stays. @throws Error where the parts cannot do that */
  impair(interfaceId: string, impairment: LabImpairment): Promise<void>;
  /** Ends a cut and an impairment. */
  restore(interfaceId: string): Promise<void>;
  /** Makes both gateways run this many tunnels. */
  scale(tunnels: number): Promise<void>;
  /** Ends one replica of a function without warning and starts another in its place. */
  crash(functionName: string): Promise<void>;
  /** Ends a gateway without warning and starts another run of it. */
  restartGateway(side: GatewayMode): Promise<void>;
  /** Takes NATS away, its streams stay; `true` brings it back. */
  setNats(isUp: boolean): Promise<void>;
  /** Makes each call of the functions to the Kubernetes API take this much longer; 0 ends that. */
  slowApi(delayMs: number): Promise<void>;
  /** Sets the wall clocks of the gateways ahead by this much, or back (embedded: those of functions too). */
  stepClock(byMs: number): Promise<void>;
  /** What is being done to the lab now. */
  state(): PageLab;
  sources(): Promise<LabSources>;
  /** Stops everything; says how many observations could not be delivered. */
  stop(): Promise<{ readonly unsent: number }>;
}
