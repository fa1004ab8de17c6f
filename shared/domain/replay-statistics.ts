import { type ConnectionValue, connectionKey, type TunnelEntry } from './connection.ts';
import type { ReplayStep } from './replay-step.ts';

/** What a timeline means to the people who are woken by it. Times are the server's times of the events. */

export type Outage = {
  /** `NAMESPACE/NAME INTERFACE` */
  readonly tunnel: string;
  readonly reason: string;
  readonly startUnixMs: number;
  /** Absent while it lasts. */
  readonly endUnixMs?: number;
};

export type ReplayStatistics = {
  readonly outages: readonly Outage[];
  readonly transitions: number;
  /** Outages that were over within {@link FLAP_MS}. */
  readonly flaps: number;
  readonly writes: { readonly tunnels: number; readonly aggregates: number };
  /** Over all tunnels, each from its listing to its end or that of the window. */
  readonly timeInStateMs: Readonly<Record<ConnectionValue, number>>;
};

/** An outage that is over so soon tells nobody anything but that settings are nervous, or the path is. */
export const FLAP_MS = 60_000;

type Tunnel = { value: ConnectionValue; sinceUnixMs: number; outage?: Outage };

export class StatisticsCollector {
  readonly #tunnels = new Map<string, Tunnel>();
  readonly #outages: Outage[] = [];
  readonly #timeInStateMs = { Connected: 0, Connecting: 0, Error: 0 };
  #transitions = 0;
  #tunnelWrites = 0;
  #aggregateWrites = 0;

  take(step: ReplayStep): void {
    const { kind, connection, interfaceId, storedAtUnixMs: at } = step;
    if (step.function === 'connection-aggregate') this.#aggregateWrites += Number(kind === 'written');
    if (connection === undefined || interfaceId === undefined) return;
    const name = `${connectionKey(connection)} ${interfaceId}`;
    if (kind === 'assumed' || (kind === 'listing' && step.reason === 'Listed')) this.#begin(name, at);
    if (kind === 'listing' && step.reason === 'Unlisted') this.#end(name, at);
    if (kind !== 'written') return;
    this.#tunnelWrites += 1;
    this.#change(name, step.after as TunnelEntry, at);
  }

  /** @param endUnixMs end of the window */
  read(endUnixMs: number): ReplayStatistics {
    const timeInStateMs = { ...this.#timeInStateMs };
    for (const { value, sinceUnixMs } of this.#tunnels.values()) timeInStateMs[value] += endUnixMs - sinceUnixMs;
    const lasting = [...this.#tunnels.values()].flatMap(({ outage }) => outage ?? []);
    const outages = [...this.#outages, ...lasting].sort(byStart);
    const flaps = outages.filter(
      ({ startUnixMs, endUnixMs }) => endUnixMs !== undefined && endUnixMs - startUnixMs < FLAP_MS,
    );
    return {
      outages,
      transitions: this.#transitions,
      flaps: flaps.length,
      writes: { tunnels: this.#tunnelWrites, aggregates: this.#aggregateWrites },
      timeInStateMs,
    };
  }

  #begin(name: string, at: number): void {
    if (!this.#tunnels.has(name)) this.#tunnels.set(name, { value: 'Connecting', sinceUnixMs: at });
  }

  #end(name: string, at: number): void {
    this.#leave(name, at);
    this.#tunnels.delete(name);
  }

  #change(name: string, { value, reason }: TunnelEntry, at: number): void {
    if (this.#tunnels.get(name)?.value === value) return;
    this.#leave(name, at);
    this.#transitions += 1;
    const outage = value === 'Error' ? { tunnel: name, reason: reason ?? 'Error', startUnixMs: at } : undefined;
    this.#tunnels.set(name, { value, sinceUnixMs: at, ...(outage && { outage }) });
  }

  #leave(name: string, at: number): void {
    const tunnel = this.#tunnels.get(name);
    if (tunnel === undefined) return;
    this.#timeInStateMs[tunnel.value] += at - tunnel.sinceUnixMs;
    if (tunnel.outage) this.#outages.push({ ...tunnel.outage, endUnixMs: at });
  }
}

function byStart(a: Outage, b: Outage): number {
  return a.startUnixMs - b.startUnixMs || (a.tunnel < b.tunnel ? -1 : 1);
}

/** How the outages of one timeline are told by another. */
export type OutageComparison = {
  readonly same: number;
  readonly earlier: number;
  readonly later: number;
  /** Outages of the base that the other does not report at all. */
  readonly unreported: readonly Outage[];
  /** Outages that only the other reports. */
  readonly additional: readonly Outage[];
  /** Mean over those in both; negative: the other reports earlier. */
  readonly meanShiftMs: number;
};

/** Outages of one tunnel are the same if they overlap: both are the one time that its PONGs stayed away. */
export function compareOutages(base: readonly Outage[], other: readonly Outage[]): OutageComparison {
  const rest = new Map<string, Outage[]>();
  for (const outage of other) rest.set(outage.tunnel, [...(rest.get(outage.tunnel) ?? []), outage]);
  const counts = { same: 0, earlier: 0, later: 0 };
  const unreported: Outage[] = [];
  const matched = new Set<Outage>();
  let shiftMs = 0;
  for (const outage of base) {
    const twins = (rest.get(outage.tunnel) ?? []).filter((candidate) => overlaps(candidate, outage));
    for (const twin of twins) matched.add(twin);
    const [twin] = twins;
    if (twin === undefined) {
      unreported.push(outage);
      continue;
    }
    const delta = twin.startUnixMs - outage.startUnixMs;
    shiftMs += delta;
    counts[delta === 0 ? 'same' : delta < 0 ? 'earlier' : 'later'] += 1;
  }
  const paired = base.length - unreported.length;
  return {
    ...counts,
    unreported,
    additional: other.filter((outage) => !matched.has(outage)),
    meanShiftMs: paired === 0 ? 0 : Math.round(shiftMs / paired),
  };
}

function overlaps(a: Outage, b: Outage): boolean {
  const endOf = ({ endUnixMs }: Outage) => endUnixMs ?? Number.POSITIVE_INFINITY;
  return a.startUnixMs <= endOf(b) && b.startUnixMs <= endOf(a);
}
