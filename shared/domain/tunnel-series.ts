import type { ConnectionValue } from './connection.ts';
import type { Observation } from './observation.ts';
import type { PageBin, PageSegment } from './page-patch.ts';

/** A second each: with one PING in two seconds, twice as long. */
export const MAX_BINS = 300;
export const MAX_SEGMENTS = 60;

type Bin = { second: number; pings: number; lost: number; rttSumUs: number; revision: number };

/** What happened to one tunnel of late, in bounded memory: round trips and losses by the second, values by the change. */
export class TunnelSeries {
  /** Who is at an older revision knows nothing of it. */
  readonly bornAt: number;
  readonly #bins: Bin[] = [];
  readonly #segments: PageSegment[] = [];
  #segmentsRevision = 0;

  constructor(revision: number) {
    this.bornAt = revision;
  }

  /** @returns whether it tells of a PING */
  observe(
    { kind, rttNs = 0, coalesced = 0 }: Pick<Observation, 'kind' | 'rttNs' | 'coalesced'>,
    atUnixMs: number,
    revision: number,
  ): boolean {
    if (kind === 'unmonitored') return false;
    const pings = 1 + coalesced;
    const bin = this.#binOf(Math.floor(atUnixMs / 1_000));
    bin.revision = revision;
    bin.pings += pings;
    if (kind === 'pong') bin.rttSumUs += (pings * rttNs) / 1_000;
    else bin.lost += pings;
    return true;
  }

  /** The status says this now. @returns whether it said something else before */
  show(value: ConnectionValue, sinceUnixMs: number, revision: number): boolean {
    const last = this.#segments.at(-1);
    if (last?.[1] === value) return false;
    this.#segments.push([Math.max(sinceUnixMs, last?.[0] ?? 0), value]);
    if (this.#segments.length > MAX_SEGMENTS) this.#segments.shift();
    this.#segmentsRevision = revision;
    return true;
  }

  /** Bins that are newer than the revision, at most `limit`, the newest ones. */
  binsSince(revision: number, limit: number): readonly PageBin[] {
    let first = this.#bins.length;
    const least = Math.max(0, first - limit);
    while (first > least && (this.#bins[first - 1] as Bin).revision > revision) first--;
    return this.#bins.slice(first).map(toPageBin);
  }

  segmentsSince(revision: number): readonly PageSegment[] | undefined {
    return this.#segmentsRevision > revision ? this.#segments : undefined;
  }

  /** Seconds do not go back: a message that overtook another counts for the newest one. */
  #binOf(second: number): Bin {
    const last = this.#bins.at(-1);
    if (last !== undefined && second <= last.second) return last;
    const bin = { second, pings: 0, lost: 0, rttSumUs: 0, revision: 0 };
    this.#bins.push(bin);
    if (this.#bins.length > MAX_BINS) this.#bins.shift();
    return bin;
  }
}

function toPageBin({ second, pings, lost, rttSumUs }: Bin): PageBin {
  const answered = pings - lost;
  return [second, pings, lost, answered === 0 ? null : Math.round(rttSumUs / answered)];
}
