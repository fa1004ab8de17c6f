import { type AggregateStatus, type ConnectionRef, connectionKey, type TunnelEntry } from './connection.ts';
import { OBSERVATION_TYPE, type TunnelEvent } from './observation.ts';
import type { PagePatch } from './page-patch.ts';
import { PageView } from './page-view.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { ReplayStep } from './replay-step.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';
import { initialEntry } from './tunnel-status.ts';

/** What the page would have been told up to a second of the past, since the frame before. */
export type PageFrame = { readonly atUnixMs: number; readonly patch: PagePatch };

type Past = {
  readonly ref: ConnectionRef;
  aggregate: Partial<AggregateStatus>;
  readonly tunnels: Map<string, TunnelEntry>;
};

/** Makes the film that the page's scrubber shows, a frame a second, from the steps of a replay and its observations. */
export class PageFrames {
  readonly #view = new PageView();
  readonly #connections = new Map<string, Past>();
  readonly #frames: PageFrame[] = [];
  #second = 0;
  #revision = 0;

  /** After the steps that it led to. The caller has checked it. */
  observe({ event, storedAtUnixMs }: RecordedMessage): void {
    this.#goTo(storedAtUnixMs);
    const data = event?.type === OBSERVATION_TYPE ? (event.data as TunnelEvent) : undefined;
    if (data !== undefined && 'sequence' in data) this.#view.observe(data, storedAtUnixMs);
  }

  step(step: ReplayStep): void {
    const { kind, connection, interfaceId, storedAtUnixMs, reason, before, after, skipped } = step;
    this.#goTo(storedAtUnixMs);
    if (connection === undefined) return;
    const past = this.#pastOf(connection);
    if (step.function === 'connection-aggregate') past.aggregate = after as AggregateStatus;
    else if (interfaceId !== undefined) changeTunnels(past.tunnels, interfaceId, step);
    this.#show(past, storedAtUnixMs);
    if (kind !== 'written' || step.function === undefined) return;
    const about = { function: step.function, namespace: connection.namespace, connection: connection.name };
    this.#view.decide(
      {
        ...{ ...about, eventId: step.eventId ?? '', outcome: kind, reason, before, after, decidedAt: '' },
        ...(interfaceId !== undefined && { interfaceId }),
        throttledSince: skipped?.throttled ?? 0,
      },
      storedAtUnixMs,
    );
  }

  /** All frames; nothing may come after. */
  end(): readonly PageFrame[] {
    this.#close();
    return this.#frames;
  }

  #pastOf(ref: ConnectionRef): Past {
    const key = connectionKey(ref);
    const past = this.#connections.get(key) ?? { ref, aggregate: {}, tunnels: new Map() };
    this.#connections.set(key, past);
    return past;
  }

  #show({ ref, aggregate, tunnels }: Past, atUnixMs: number): void {
    const metadata = { namespace: ref.namespace, name: ref.name, uid: 'past', resourceVersion: '0' };
    this.#view.setConnection({ metadata, status: { ...aggregate, tunnels: [...tunnels.values()] } }, atUnixMs);
  }

  #goTo(unixMs: number): void {
    const second = Math.floor(unixMs / 1_000);
    if (second <= this.#second) return;
    this.#close();
    this.#second = second;
  }

  #close(): void {
    if (this.#second === 0 || this.#view.revision === this.#revision) return;
    const patch = this.#view.since(this.#revision);
    this.#revision = patch.revision;
    this.#frames.push({ atUnixMs: this.#second * 1_000, patch });
  }
}

function changeTunnels(
  tunnels: Map<string, TunnelEntry>,
  interfaceId: string,
  { kind, reason, after, storedAtUnixMs }: ReplayStep,
): void {
  if (kind === 'written') tunnels.set(interfaceId, after as TunnelEntry);
  else if (kind === 'listing' && reason === 'Unlisted') tunnels.delete(interfaceId);
  else if ((kind === 'listing' || kind === 'assumed') && !tunnels.has(interfaceId)) {
    tunnels.set(interfaceId, initialEntry(interfaceId, formatRfc3339Ms(storedAtUnixMs)));
  }
}
