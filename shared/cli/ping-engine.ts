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
  /** When each tunnel wants to be woken next, or earlier: a PONG puts it off, which shows at the next wake-up. */
  #wakeAtMs = new Float64Array();

  #timer: Timer | undefined;
  #plannedMs = Number.POSITIVE_INFINITY;
  /** From a wake-up until its verdicts are given; what arises meanwhile is planned at the end. */
  #isAwake = false;
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
    this.#wakeAtMs = Float64Array.from(this.#tunnels, ({ monitor }) => monitor.nextWakeAtMs());
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
    if (this.#isStopped || this.#isAwake) return;
    let atMs = Math.min(this.#reports.dueAtMs(), this.#snapshotAtMs);
    for (const wakeAtMs of this.#wakeAtMs) if (wakeAtMs < atMs) atMs = wakeAtMs;
    if (this.#timer !== undefined && this.#plannedMs <= atMs) return;
    this.#timer?.cancel();
    this.#plannedMs = atMs;
    this.#timer = this.#clock.after(Math.max(0, atMs - this.#now().monotonicMs), () => this.#wake());
  }

  #wake(): void {
    this.#timer = undefined;
    this.#isAwake = true;
    const now = this.#now();
    const lagMs = now.monotonicMs - this.#plannedMs;
    this.#worstLagMs = Math.max(this.#worstLagMs, lagMs);
    const isStalled = lagMs > Math.min(NOTABLE_STALL_MS, this.#options.settings.intervalMs);
    if (isStalled) {
      this.#stall = stallBefore(now, lagMs);
      for (const { monitor } of this.#tunnels) monitor.stalled(this.#stall);
    }
    let isJudgementDue = isStalled;
    this.#forEachDue(now.monotonicMs, ({ monitor, send }) => {
      send(now.monotonicMs);
      isJudgementDue ||= monitor.judgeAtMs() <= now.monotonicMs;
    });
    if (isJudgementDue) this.#sockets.afterBacklog(() => this.#judge());
    else this.#finishTurn(now);
  }

  #judge(): void {
    this.#stall = undefined;
    if (this.#isStopped) return;
    const now = this.#now();
    this.#forEachDue(now.monotonicMs, ({ monitor }) => {
      if (monitor.judgeAtMs() <= now.monotonicMs) monitor.judge(now);
    });
    this.#finishTurn(now);
  }

  /** Those that wanted to be woken by now; afterwards it is known when they want it next. */
  #forEachDue(nowMs: number, task: (tunnel: EngineTunnel) => void): void {
    const wakeAtMs = this.#wakeAtMs;
    for (let index = 0; index < wakeAtMs.length; index++) {
      if ((wakeAtMs[index] as number) > nowMs) continue;
      const tunnel = this.#tunnels[index] as EngineTunnel;
      task(tunnel);
      wakeAtMs[index] = tunnel.monitor.nextWakeAtMs();
    }
  }

  #onRefused(interfaceId: string): void {
    const index = this.#tunnels.findIndex(({ endpoint }) => endpoint.interfaceId === interfaceId);
    const tunnel = this.#tunnels[index];
    if (tunnel === undefined) return;
    this.#wakeAtMs[index] = tunnel.monitor.nextWakeAtMs();
    this.#arm();
  }

  #finishTurn({ monotonicMs }: Moment): void {
    this.#isAwake = false;
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
    if (this.#isAwake) {
      const stall = this.#stall;
      return stall && durationOf(stall) > NOTABLE_STALL_MS ? stall : undefined;
    }
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
