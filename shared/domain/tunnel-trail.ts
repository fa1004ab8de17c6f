import { connectionKey, type TunnelEntry } from './connection.ts';
import type { TunnelEvent } from './observation.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { ReplayStep } from './replay-step.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';

const KEPT_ENTRIES = 32;
const KEPT_EVENTS = 6;

export type WrittenEntry = { readonly entry: TunnelEntry; readonly sequence: number; readonly at: number };

export type Trail = {
  /** What was written of the tunnel, oldest first. */
  readonly entries: readonly WrittenEntry[];
  /** Its last PONG, what came first after it, and its last events, oldest first. */
  readonly events: readonly RecordedMessage[];
  readonly isAssumed: boolean;
};

type Tunnel = {
  readonly entries: WrittenEntry[];
  /** The last PONG and the first event after it: where an outage began. */
  readonly turn: RecordedMessage[];
  readonly last: RecordedMessage[];
  isAssumed: boolean;
};

/** Remembers of each tunnel what came last: enough to say where its state comes from, however long the window. */
export class TunnelTrails {
  readonly #tunnels = new Map<string, Tunnel>();

  event(message: RecordedMessage): void {
    const data = message.event?.data as Partial<TunnelEvent> | undefined;
    if (data?.interfaceId === undefined) return;
    const { turn, last } = this.#of(`${data.namespace}/${data.connection} ${data.interfaceId}`);
    push(last, message, KEPT_EVENTS);
    if (data.kind === 'pong') turn.length = 0;
    if (data.kind === 'pong' || turn.length === 1) turn.push(message);
  }

  step({ kind, connection, interfaceId, after, sequence, storedAtUnixMs: at }: ReplayStep): void {
    if (connection === undefined || interfaceId === undefined) return;
    const tunnel = this.#of(`${connectionKey(connection)} ${interfaceId}`);
    if (kind === 'assumed') tunnel.isAssumed = true;
    if (kind === 'written') push(tunnel.entries, { entry: after as TunnelEntry, sequence, at }, KEPT_ENTRIES);
  }

  /** @param tunnel - `NAMESPACE/NAME INTERFACE` */
  get(tunnel: string): Trail | undefined {
    const found = this.#tunnels.get(tunnel);
    if (found === undefined) return undefined;
    const { entries, turn, last, isAssumed } = found;
    const [first = Number.POSITIVE_INFINITY] = last.map(({ sequence }) => sequence);
    return { entries, isAssumed, events: [...turn.filter(({ sequence }) => sequence < first), ...last] };
  }

  #of(name: string): Tunnel {
    let tunnel = this.#tunnels.get(name);
    if (tunnel === undefined) {
      tunnel = { entries: [], turn: [], last: [], isAssumed: false };
      this.#tunnels.set(name, tunnel);
    }
    return tunnel;
  }
}

function push<T>(list: T[], item: T, limit: number): void {
  list.push(item);
  if (list.length > limit) list.shift();
}

/** One event in a line: sequence, time, gateway run and number, what it says. */
export function formatEvent({ sequence, storedAtUnixMs, event }: RecordedMessage): string {
  const head = `#${sequence} ${formatRfc3339Ms(storedAtUnixMs)}`;
  if (event === undefined) return `${head} cannot be read`;
  const data = event.data as TunnelEvent;
  if (!('sequence' in data)) return `${head} ${data.kind} (gateway run ${data.gatewayEpoch})`;
  const { kind, value, gatewayEpoch, sequence: number, rttNs, consecutiveMisses, reason, message } = data;
  const details = [
    rttNs === undefined ? '' : `${(rttNs / 1e6).toFixed(3)} ms`,
    consecutiveMisses ? `${consecutiveMisses} ${consecutiveMisses === 1 ? 'miss' : 'misses in a row'}` : '',
    reason && `[${reason}]`,
    message,
  ].filter(Boolean);
  return [head, kind, value, `(gateway run ${gatewayEpoch}, number ${number})`, ...details].join(' ');
}
