import { phaseMs } from '../domain/ping-cadence.ts';
import type { Moment, Sighting } from '../domain/sighting.ts';
import { hintFor } from '../domain/socket-fault.ts';
import { durationOf, NOTABLE_STALL_MS, type Stall, stallBefore } from '../domain/stall.ts';
import { StampSource } from '../domain/stamp-source.ts';
import type { TunnelEndpoint } from '../domain/tunnel-interface.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import type { DatagramSockets } from '../ports/datagram-socket.ts';
import type { EngineOptions, EngineReport, EngineSnapshot, PingEngine, StartEngine } from '../ports/ping-engine.ts';
import { EngineReports } from './engine-reports.ts';
import { createEngineTunnel, type EngineContext, type EngineTunnel } from './engine-tunnel.ts';

export type EnginePorts = { readonly sockets: DatagramSockets; readonly clock: Clock };

const SNAPSHOT_EVERY_MS = 1_000;

/** The engine in the thread of its caller: for the worker thread that is made for it, for tests and simulations. */
export function engineOn(ports: EnginePorts): StartEngine {
  return (options, onReport) => new Engine(options, ports, onReport);
}

/**
 * All tunnels of a gateway on one timer. A wake-up sends first, since the cadence must not wait for verdicts; then it
 * judges, but only once everything that waited in the sockets has been read.
 */
class Engine implements PingEngine {
  readonly failed = new Promise<never>(() => {});
  readonly #clock: Clock;
  readonly #originMs: number;
  readonly #sockets: DatagramSockets;
  readonly #options: EngineOptions;
  readonly #context: EngineContext;
  readonly #reports: EngineReports;
  #tunnels: readonly EngineTunnel[] = [];
  /** When each tunnel has to send, and to be judged, next, or earlier: what a PONG puts off shows when it is looked at. */
  #sendAtMs = new Float64Array();
  #judgeAtMs = new Float64Array();

  #timer: Timer | undefined;
  #plannedMs = Number.POSITIVE_INFINITY;
  /** While true, what arises is planned at the end of the turn. */
  #isInTurn = false;
  /** Verdicts are due and wait until the sockets are read; sending goes on meanwhile. */
  #isReadingBacklog = false;
  /** The pause before this wake-up, until what piled up in it is read. */
  #stall: Stall | undefined;
  #isStopped = false;

  readonly #snapshotEveryMs: number;
  #snapshotAtMs: number;
  /** Last sequence of tunnels that were taken away: if they come back, it goes on from there. */
  readonly #sequences = new Map<string, number>();
  readonly #dropped = new Map<string, number>();
  #answered = 0;
  #worstLagMs = 0;

  constructor(options: EngineOptions, ports: EnginePorts, onReport: (report: EngineReport) => void) {
    const { clock, sockets } = ports;
    this.#clock = clock;
    this.#originMs = clock.monotonicMs();
    this.#sockets = sockets;
    this.#options = options;
    this.#reports = new EngineReports(options.batchMs, onReport);
    this.#snapshotEveryMs = Math.max(SNAPSHOT_EVERY_MS, Math.min(options.settings.intervalMs, 2 * SNAPSHOT_EVERY_MS));
    this.#snapshotAtMs = SNAPSHOT_EVERY_MS;
    this.#context = {
      ...{ options, ports, stamps: new StampSource(clock.unixMs()) },
      now: () => this.#now(),
      stall: (moment) => this.#stallAt(moment),
      onSighting: (sighting) => this.#take(sighting),
      onAnswered: () => {
        this.#answered += 1;
      },
      onDropped: (reason) => {
        this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + 1);
      },
      onRefused: (interfaceId) => this.#onRefused(interfaceId),
    };
    this.setTunnels(options.tunnels);
  }

  setTunnels(endpoints: readonly TunnelEndpoint[]): void {
    if (this.#isStopped) return;
    const former = new Map(this.#tunnels.map((tunnel) => [keyOf(tunnel.endpoint), tunnel]));
    const wanted = new Set(endpoints.map(keyOf));
    for (const [key, { monitor, link }] of former) {
      if (wanted.has(key)) continue;
      link.close();
      this.#reports.forget(monitor.interfaceId);
      this.#sequences.set(monitor.interfaceId, monitor.sequence);
    }
    const now = this.#now();
    this.#tunnels = endpoints.map((endpoint, index) => {
      const kept = former.get(keyOf(endpoint));
      if (kept !== undefined) return kept;
      const phase = phaseMs(index, endpoints.length, this.#options.settings.intervalMs);
      const firstDue = { monotonicMs: now.monotonicMs + phase, unixMs: now.unixMs + phase };
      const { interfaceId } = endpoint;
      return createEngineTunnel(endpoint, firstDue, this.#sequences.get(interfaceId) ?? 0, this.#context);
    });
    this.#sendAtMs = Float64Array.from(this.#tunnels, ({ monitor }) => monitor.sendAtMs());
    this.#judgeAtMs = Float64Array.from(this.#tunnels, ({ monitor }) => monitor.judgeAtMs());
    this.#arm();
  }

  stop(): Promise<void> {
    if (!this.#isStopped) {
      this.#isStopped = true;
      this.#timer?.cancel();
      const last = this.#snapshot();
      for (const { link } of this.#tunnels) link.close();
      this.#reports.tell(last);
    }
    return Promise.resolve();
  }

  #now(): Moment {
    return { monotonicMs: this.#clock.monotonicMs() - this.#originMs, unixMs: this.#clock.unixMs() };
  }

  /** Sets the timer for whatever is due first; one that comes too early finds nothing to do and sets it again. */
  #arm(): void {
    if (this.#isStopped || this.#isInTurn) return;
    let atMs = Math.min(this.#reports.dueAtMs(), this.#snapshotAtMs);
    for (const sendAtMs of this.#sendAtMs) if (sendAtMs < atMs) atMs = sendAtMs;
    if (!this.#isReadingBacklog) for (const judgeAtMs of this.#judgeAtMs) if (judgeAtMs < atMs) atMs = judgeAtMs;
    if (this.#timer !== undefined && this.#plannedMs <= atMs) return;
    this.#timer?.cancel();
    this.#plannedMs = atMs;
    this.#timer = this.#clock.after(Math.max(0, atMs - this.#now().monotonicMs), () => this.#wake());
  }

  #wake(): void {
    this.#timer = undefined;
    this.#isInTurn = true;
    const now = this.#now();
    const lagMs = now.monotonicMs - this.#plannedMs;
    this.#worstLagMs = Math.max(this.#worstLagMs, lagMs);
    const isStalled = lagMs > Math.min(NOTABLE_STALL_MS, this.#options.settings.intervalMs);
    if (isStalled) {
      this.#stall = stallBefore(now, lagMs);
      for (const { monitor } of this.#tunnels) monitor.stalled(this.#stall);
    }
    this.#forEachDue(this.#sendAtMs, now, ({ send }) => send(now.monotonicMs));
    const isJudgementDue = isStalled || this.#judgeAtMs.some((judgeAtMs) => judgeAtMs <= now.monotonicMs);
    if (isJudgementDue && !this.#isReadingBacklog) {
      this.#isReadingBacklog = true;
      this.#sockets.afterBacklog(() => this.#judge());
    }
    this.#finishTurn(now);
  }

  #judge(): void {
    this.#isReadingBacklog = false;
    this.#stall = undefined;
    if (this.#isStopped) return;
    const now = this.#now();
    this.#isInTurn = true;
    this.#forEachDue(this.#judgeAtMs, now, ({ monitor }) => {
      if (monitor.judgeAtMs() <= now.monotonicMs) monitor.judge(now);
    });
    this.#finishTurn(now);
  }

  #forEachDue(atMs: Float64Array, now: Moment, task: (tunnel: EngineTunnel) => void): void {
    for (let index = 0; index < atMs.length; index++) {
      if ((atMs[index] as number) > now.monotonicMs) continue;
      task(this.#tunnels[index] as EngineTunnel);
      this.#plan(index);
    }
  }

  #plan(index: number): void {
    const { monitor } = this.#tunnels[index] as EngineTunnel;
    this.#sendAtMs[index] = monitor.sendAtMs();
    this.#judgeAtMs[index] = monitor.judgeAtMs();
  }

  #onRefused(interfaceId: string): void {
    const index = this.#tunnels.findIndex(({ endpoint }) => endpoint.interfaceId === interfaceId);
    if (index < 0) return;
    this.#plan(index);
    this.#arm();
  }

  #finishTurn({ monotonicMs }: Moment): void {
    this.#isInTurn = false;
    if (monotonicMs >= this.#snapshotAtMs) {
      this.#snapshotAtMs = monotonicMs + this.#snapshotEveryMs;
      this.#reports.tell(this.#snapshot());
    } else {
      this.#reports.tellIfRipe(monotonicMs);
    }
    this.#arm();
  }

  /** The pause that a datagram read at `moment` may have waited through, if it was a notable one. */
  #stallAt(moment: Moment): Stall | undefined {
    if (this.#stall !== undefined) return durationOf(this.#stall) > NOTABLE_STALL_MS ? this.#stall : undefined;
    const lagMs = moment.monotonicMs - this.#plannedMs;
    return lagMs > NOTABLE_STALL_MS ? stallBefore(moment, lagMs) : undefined;
  }

  #take(sighting: Sighting): void {
    if (this.#reports.add(this.#withPeersHabit(sighting), this.#now().monotonicMs)) this.#arm();
  }

  /** A peer that answers on its first tunnel alone is probably the Go implementation with one tunnel. */
  #withPeersHabit(sighting: Sighting): Sighting {
    if (sighting.reason !== 'NeverAnswered') return sighting;
    const [first, ...others] = this.#tunnels;
    if (first?.monitor.value !== 'Connected' || !others.every(({ monitor }) => monitor.isMute)) return sighting;
    const message = `${sighting.message}; the peer answers on ${first.endpoint.interfaceId} only: does it run one tunnel?`;
    return { ...sighting, reason: 'NeverAnswered:FirstTunnelOnly', message };
  }

  #snapshot(): EngineSnapshot {
    const faults: Record<string, { code: string; hint: string }> = {};
    for (const { endpoint, link } of this.#tunnels) {
      const code = link.fault();
      if (code !== undefined) faults[endpoint.interfaceId] = { code, hint: hintFor(code) };
    }
    const worstLagMs = Math.max(0, this.#worstLagMs);
    this.#worstLagMs = 0;
    return {
      tunnels: this.#tunnels.map(({ monitor }) => monitor.snapshot()),
      dropped: Object.fromEntries(this.#dropped),
      answered: this.#answered,
      worstLagMs,
      faults,
    };
  }
}

function keyOf({ interfaceId, local, peer }: TunnelEndpoint): string {
  return `${interfaceId} ${local.address}:${local.port} ${peer.address}:${peer.port}`;
}
