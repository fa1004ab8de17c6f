import type { ConnectionValue } from '../domain/connection.ts';
import type { Sighting } from '../domain/sighting.ts';
import type { EngineReport, EngineSnapshot } from '../ports/ping-engine.ts';

/** A sighting may wait this many times its `batchMs` for a wake-up that comes anyway. */
const PATIENCE = 5;

/** Gathers sightings, so that most of them wake nobody; a change of value is told at once, with all before it. */
export class EngineReports {
  readonly #batchMs: number;
  readonly #onReport: (report: EngineReport) => void;
  #sightings: Sighting[] = [];
  #waitingSinceMs = Number.POSITIVE_INFINITY;
  /** The value of each tunnel that was told last. */
  readonly #told = new Map<string, ConnectionValue>();

  /** @param batchMs - 0: every sighting is told at once */
  constructor(batchMs: number, onReport: (report: EngineReport) => void) {
    this.#batchMs = batchMs;
    this.#onReport = onReport;
  }

  /** Returns whether it is the first that waits, so that {@link dueAtMs} has come nearer. */
  add(sighting: Sighting, nowMs: number): boolean {
    const isFirst = this.#sightings.push(sighting) === 1;
    const isNews = this.#told.get(sighting.interfaceId) !== sighting.value;
    if (isNews) this.#told.set(sighting.interfaceId, sighting.value);
    if (isNews || this.#batchMs === 0) {
      this.tell();
      return false;
    }
    if (isFirst) this.#waitingSinceMs = nowMs;
    return isFirst;
  }

  /** When it has waited long enough, whether anything else happens then or not. */
  dueAtMs(): number {
    return this.#waitingSinceMs + PATIENCE * this.#batchMs;
  }

  tellIfRipe(nowMs: number): void {
    if (nowMs >= this.#waitingSinceMs + this.#batchMs) this.tell();
  }

  tell(snapshot?: EngineSnapshot): void {
    const sightings = this.#sightings;
    this.#sightings = [];
    this.#waitingSinceMs = Number.POSITIVE_INFINITY;
    this.#onReport({ sightings, ...(snapshot === undefined ? {} : { snapshot }) });
  }

  /** The tunnel is gone; should it come back, its first value is news. */
  forget(interfaceId: string): void {
    this.#told.delete(interfaceId);
  }
}
