import type { PingSettings } from '../domain/ping-settings.ts';
import type { ProbeSnapshot, Sighting } from '../domain/sighting.ts';
import type { TunnelEndpoint } from '../domain/tunnel-interface.ts';

export type EngineOptions = {
  readonly tunnels: readonly TunnelEndpoint[];
  readonly settings: PingSettings;
  readonly suspectIntervalMs?: number;
  /** 8 hex digits, drawn anew for each run: tells this run's PINGs from everybody else's. */
  readonly sender: string;
  /** An observation waits so long for company, and some more for a wake-up that comes anyway; changes never wait. */
  readonly batchMs: number;
};

/** Counted since the run began, except where it says otherwise. Plain data: it crosses threads. */
export type EngineSnapshot = {
  readonly tunnels: readonly ProbeSnapshot[];
  /** Datagrams received and not used, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  /** PINGs of the peers that were answered. */
  readonly answered: number;
  /** How late the shared timer came, at worst, since the snapshot before. */
  readonly worstLagMs: number;
  /** Tunnels without a socket, or with one that fails: code and what to do about it. */
  readonly faults: Readonly<Record<string, { readonly code: string; readonly hint: string }>>;
};

export type EngineReport = {
  /** In the order in which they were made. */
  readonly sightings: readonly Sighting[];
  /** Every one to two seconds: the engine is woken for its PINGs rather than for this. */
  readonly snapshot?: EngineSnapshot;
};

/** Sends PINGs, answers PINGs, measures PONGs. Nothing of it waits for anything but its sockets and its clock. */
export interface PingEngine {
  /** Tunnels that stay, by interface and addresses, keep their state. */
  setTunnels(tunnels: readonly TunnelEndpoint[]): void;
  /** Sends nothing more once this is called; resolves when the sockets are closed and the last report is told. */
  stop(): Promise<void>;
  /** Rejects if the engine died of a bug; never resolves. */
  readonly failed: Promise<never>;
}

export type StartEngine = (options: EngineOptions, onReport: (report: EngineReport) => void) => PingEngine;
