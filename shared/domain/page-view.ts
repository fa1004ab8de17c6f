import {
  type Connection,
  type ConnectionRef,
  connectionKey,
  REMOTE_CLUSTER_ID_LABEL,
  type TunnelEntry,
} from './connection.ts';
import type { Decision } from './decision.ts';
import type { Observation } from './observation.ts';
import type {
  PageConnection,
  PageDecision,
  PageFunction,
  PageHealth,
  PageLab,
  PagePatch,
  PageSeries,
  PageTunnel,
} from './page-patch.ts';
import { parseRfc3339, unixMsOf } from './rfc3339-nanos.ts';
import { TunnelSeries } from './tunnel-series.ts';

export const MAX_DECISIONS = 200;
const MAX_TOMBSTONES = 256;
/** Bins of one patch, over all tunnels: some hundred kilobytes. */
const MAX_BINS_A_PATCH = 30_000;
const LEAST_BINS_A_TUNNEL = 20;

/** Told by its parts: one of its tunnels changes each moment, the others do not. */
type Known = {
  readonly uid: string;
  readonly head: Part<PageHead>;
  readonly interfaces: Part<readonly string[]>;
  readonly tunnels: ReadonlyMap<string, Part<PageTunnel>>;
};
type PageHead = Omit<PageConnection, 'interfaces' | 'tunnels'>;
/** A Connection of the past may have no spec: the events tell its status only. */
type Shown = Pick<Connection, 'metadata' | 'status'> & Partial<Pick<Connection, 'spec'>>;
/** A part that is told whole or not at all. */
type Part<Value> = { readonly value: Value; readonly revision: number };

/**
 * Everything that the page shows, with the revision of each part. A page that lags behind asks for what has
 * changed since its revision, and gets the newest of each part: no queue, whatever it missed.
 */
export class PageView {
  readonly #connections = new Map<string, Known>();
  readonly #series = new Map<string, Map<string, TunnelSeries>>();
  readonly #decisions: Part<PageDecision>[] = [];
  readonly #tombstones: Part<string>[] = [];
  /** Who is at an older revision than this may not know all that is gone. */
  #forgotten = 0;
  #revision = 0;
  #functions: Part<readonly PageFunction[]> | undefined;
  #deadLetters: Part<number> | undefined;
  #health: Part<readonly PageHealth[]> | undefined;
  #lab: Part<PageLab> | undefined;

  get revision(): number {
    return this.#revision;
  }

  /** @param atUnixMs when it was seen, for values that do not say since when */
  setConnection(connection: Shown, atUnixMs: number): void {
    const { metadata, status = {} } = connection;
    const key = connectionKey(metadata);
    const tunnels = (status.tunnels ?? []).map(pageTunnel);
    const known = this.#connections.get(key);
    this.#connections.set(key, {
      uid: metadata.uid,
      head: this.#changed(known?.head, pageHead(connection)),
      interfaces: this.#changed(
        known?.interfaces,
        tunnels.map(({ interfaceId }) => interfaceId),
      ),
      tunnels: new Map(
        tunnels.map((tunnel) => [tunnel.interfaceId, this.#changed(known?.tunnels.get(tunnel.interfaceId), tunnel)]),
      ),
    });
    // A namesake's tunnels are others.
    const series = (known?.uid === metadata.uid && this.#series.get(key)) || new Map<string, TunnelSeries>();
    this.#series.set(
      key,
      new Map(
        tunnels.map(({ interfaceId }) => [
          interfaceId,
          series.get(interfaceId) ?? new TunnelSeries(this.#revision + 1),
        ]),
      ),
    );
    for (const { interfaceId, value, since } of tunnels) {
      const one = this.#series.get(key)?.get(interfaceId);
      if (one?.show(value, sinceUnixMs(since, atUnixMs), this.#revision + 1)) this.#revision += 1;
    }
  }

  removeConnection(ref: ConnectionRef): void {
    const key = connectionKey(ref);
    if (!this.#connections.delete(key)) return;
    this.#series.delete(key);
    this.#tombstones.push({ value: key, revision: ++this.#revision });
    if (this.#tombstones.length > MAX_TOMBSTONES) this.#forgotten = this.#tombstones.shift()?.revision ?? 0;
  }

  /** Of a tunnel that no Connection lists, nothing is kept. */
  observe(observation: Observation, atUnixMs: number): void {
    const { namespace, connection, interfaceId } = observation;
    const key = connectionKey({ namespace, name: connection });
    const series = this.#series.get(key)?.get(interfaceId);
    if (series?.observe(observation, atUnixMs, this.#revision + 1)) this.#revision += 1;
  }

  decide(decision: Decision, atUnixMs: number): void {
    this.#decisions.push({ value: pageDecision(decision, atUnixMs), revision: ++this.#revision });
    if (this.#decisions.length > MAX_DECISIONS) this.#decisions.shift();
  }

  setFunctions(functions: readonly PageFunction[]): void {
    this.#functions = this.#changed(this.#functions, functions);
  }

  setDeadLetters(count: number): void {
    this.#deadLetters = this.#changed(this.#deadLetters, count);
  }

  setHealth(health: readonly PageHealth[]): void {
    this.#health = this.#changed(this.#health, health);
  }

  setLab(lab: PageLab): void {
    this.#lab = this.#changed(this.#lab, lab);
  }

  /** `since(0)` is everything. */
  since(revision: number): PagePatch {
    const isReset = revision === 0 || revision < this.#forgotten || revision > this.#revision;
    const from = isReset ? 0 : revision;
    const isNewer = (part: { readonly revision: number } | undefined) => part !== undefined && part.revision > from;
    const connections = [...this.#connections.values()].flatMap((known) => {
      const { head, interfaces } = known;
      const tunnels = [...known.tunnels.values()].filter(isNewer).map(({ value }) => value);
      if (!isNewer(head) && !isNewer(interfaces) && tunnels.length === 0) return [];
      return [{ ...head.value, ...(isNewer(interfaces) && { interfaces: interfaces.value }), tunnels }];
    });
    const gone = isReset ? [] : this.#tombstones.filter(isNewer).map(({ value }) => value);
    const series = this.#seriesSince(from);
    const decisions = this.#decisions.filter(isNewer).map(({ value }) => value);
    return {
      revision: this.#revision,
      ...(isReset && { reset: true }),
      ...(connections.length > 0 && { connections }),
      // A namesake that has come since is among the Connections.
      ...(gone.length > 0 && { gone: gone.filter((key) => !this.#connections.has(key)) }),
      ...(series.length > 0 && { series }),
      ...(decisions.length > 0 && { decisions }),
      ...(isNewer(this.#functions) && { functions: this.#functions?.value ?? [] }),
      ...(isNewer(this.#deadLetters) && { deadLetters: this.#deadLetters?.value ?? 0 }),
      ...(isNewer(this.#health) && { health: this.#health?.value ?? [] }),
      ...(isNewer(this.#lab) && this.#lab && { lab: this.#lab.value }),
    };
  }

  #seriesSince(revision: number): readonly PageSeries[] {
    const tunnels = [...this.#series.values()].reduce((sum, { size }) => sum + size, 0);
    const limit = Math.max(LEAST_BINS_A_TUNNEL, Math.floor(MAX_BINS_A_PATCH / Math.max(1, tunnels)));
    const found: PageSeries[] = [];
    for (const [connection, all] of this.#series) {
      for (const [interfaceId, series] of all) {
        const bins = series.binsSince(revision, limit);
        const segments = series.segmentsSince(revision);
        if (bins.length === 0 && segments === undefined) continue;
        const isNew = series.bornAt > revision;
        found.push({ connection, interfaceId, ...(isNew && { isNew }), bins, ...(segments && { segments }) });
      }
    }
    return found;
  }

  #changed<Value>(before: Part<Value> | undefined, value: Value): Part<Value> {
    if (before !== undefined && JSON.stringify(before.value) === JSON.stringify(value)) return before;
    return { value, revision: ++this.#revision };
  }
}

function pageHead({ metadata, spec, status = {} }: Shown): PageHead {
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const remoteClusterId = metadata.labels?.[REMOTE_CLUSTER_ID_LABEL];
  return {
    key: connectionKey(metadata),
    ...(remoteClusterId !== undefined && { remoteClusterId }),
    ...(spec?.type && { type: spec.type }),
    ...(status.value && { value: status.value }),
    ...(status.latency && { latency: status.latency.value }),
    ...(ready && { reason: ready.reason, message: ready.message }),
  };
}

function pageTunnel({ interfaceID, value, latency, reason, message, lastTransitionTime }: TunnelEntry): PageTunnel {
  return {
    interfaceId: interfaceID,
    value,
    ...(latency && { latency: latency.value }),
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    ...(lastTransitionTime !== undefined && { since: lastTransitionTime }),
  };
}

/** A transition of the future is one of a clock that goes ahead. */
function sinceUnixMs(since: string | undefined, atUnixMs: number): number {
  const instant = since === undefined ? undefined : parseRfc3339(since);
  return instant === undefined ? atUnixMs : Math.min(atUnixMs, unixMsOf(instant));
}

type Written = { readonly value?: string; readonly latency?: { readonly value: string } };

function pageDecision(decision: Decision, atUnixMs: number): PageDecision {
  const { namespace, connection, interfaceId, outcome, reason, throttledSince = 0 } = decision;
  const [before, after] = [decision.before, decision.after] as readonly (Written | undefined)[];
  const values = [before?.value, after?.value].filter((value) => value !== undefined);
  const change = [...new Set(values)].join(' → ');
  return {
    atUnixMs,
    function: decision.function,
    connection: connectionKey({ namespace, name: connection }),
    ...(interfaceId !== undefined && { interfaceId }),
    ...{ outcome, reason, throttled: throttledSince },
    ...(change !== '' && { change }),
    ...(after?.latency && { latency: after.latency.value }),
  };
}
