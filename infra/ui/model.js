/** @import { PageBin, PageConnection, PageDecision, PageFunction, PageHealth, PageLab, PagePatch, PageSegment, PageTunnel } from '../../shared/domain/page-patch.ts' */

/** @typedef {{ bins: PageBin[], segments: readonly PageSegment[] }} Series */
/** @typedef {{ head: PageConnection, interfaces: readonly string[], tunnels: Map<string, PageTunnel>, series: Map<string, Series> }} KnownConnection */
/**
 * What a patch has changed.
 * @typedef {object} Changes
 * @property {Set<string>} connections keys
 * @property {Map<string, Set<string>>} series interfaces by key
 * @property {readonly PageDecision[]} decisions new ones
 * @property {boolean} reset
 */

const MAX_BINS = 300;
const LEAST_SECONDS = 60;
const MOST_SECONDS = 300;
const MAX_DECISIONS = 200;

/** What the page knows: patches go in, what has changed comes out. Knows nothing of the document. */
export class Model {
  /** @type {Map<string, KnownConnection>} */
  connections = new Map();
  /** @type {PageDecision[]} */
  decisions = [];
  /** @type {readonly PageFunction[]} */
  functions = [];
  /** @type {number | undefined} */
  deadLetters;
  /** @type {readonly PageHealth[]} */
  health = [];
  /** @type {PageLab | undefined} */
  lab;
  /** First and last second of any tunnel. */
  #firstSecond = Number.POSITIVE_INFINITY;
  #lastSecond = 0;

  /** What all charts show, in seconds: the last minutes, or all there is while that is less. */
  window() {
    const seconds = Math.min(MOST_SECONDS, Math.max(LEAST_SECONDS, this.#lastSecond - this.#firstSecond));
    return { first: this.#lastSecond - seconds, last: this.#lastSecond };
  }

  /**
   * @param {PagePatch} patch
   * @returns {Changes}
   */
  apply(patch) {
    const reset = patch.reset === true;
    /** @type {Changes} */
    const changes = { connections: new Set(), series: new Map(), decisions: patch.decisions ?? [], reset };
    if (reset) this.#forget(patch, changes);
    for (const key of patch.gone ?? []) {
      if (this.connections.delete(key)) changes.connections.add(key);
    }
    for (const connection of patch.connections ?? []) {
      this.#setConnection(connection);
      changes.connections.add(connection.key);
    }
    for (const series of patch.series ?? []) {
      if (!this.#addSeries(series)) continue;
      const changed = changes.series.get(series.connection) ?? new Set();
      changes.series.set(series.connection, changed.add(series.interfaceId));
    }
    this.decisions.push(...changes.decisions);
    this.decisions.splice(0, this.decisions.length - MAX_DECISIONS);
    this.functions = patch.functions ?? this.functions;
    this.deadLetters = patch.deadLetters ?? this.deadLetters;
    this.health = patch.health ?? this.health;
    this.lab = patch.lab ?? this.lab;
    return changes;
  }

  /**
   * What is the same in the patch stays, so that nothing flickers; all else goes.
   * @param {PagePatch} patch
   * @param {Changes} changes
   */
  #forget({ connections = [] }, changes) {
    const told = new Set(connections.map(({ key }) => key));
    for (const key of this.connections.keys()) {
      if (told.has(key)) continue;
      this.connections.delete(key);
      changes.connections.add(key);
    }
    for (const { series } of this.connections.values()) series.clear();
    this.decisions = [];
    this.lab = undefined;
    this.#firstSecond = Number.POSITIVE_INFINITY;
    this.#lastSecond = 0;
  }

  /** @param {PageConnection} connection */
  #setConnection(connection) {
    const { key, tunnels } = connection;
    const known = this.connections.get(key);
    const all = known?.tunnels ?? new Map();
    const series = known?.series ?? new Map();
    for (const tunnel of tunnels) all.set(tunnel.interfaceId, tunnel);
    const interfaces = connection.interfaces ?? known?.interfaces ?? [];
    for (const interfaceId of [...all.keys()]) {
      if (interfaces.includes(interfaceId)) continue;
      all.delete(interfaceId);
      series.delete(interfaceId);
    }
    this.connections.set(key, { head: connection, interfaces, tunnels: all, series });
  }

  /** @param {import('../../shared/domain/page-patch.ts').PageSeries} series */
  #addSeries({ connection, interfaceId, isNew, bins, segments }) {
    const known = this.connections.get(connection);
    if (!known?.tunnels.has(interfaceId)) return false;
    const own = (!isNew && known.series.get(interfaceId)) || { bins: [], segments: [] };
    known.series.set(interfaceId, own);
    const [first] = bins;
    while (first !== undefined && (own.bins.at(-1)?.[0] ?? 0) >= first[0]) own.bins.pop();
    own.bins.push(...bins);
    own.bins.splice(0, own.bins.length - MAX_BINS);
    own.segments = segments ?? own.segments;
    this.#firstSecond = Math.min(this.#firstSecond, own.bins[0]?.[0] ?? Number.POSITIVE_INFINITY);
    this.#lastSecond = Math.max(this.#lastSecond, own.bins.at(-1)?.[0] ?? 0);
    return true;
  }
}
