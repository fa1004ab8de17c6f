import type { CloudEvent } from './cloud-event.ts';
import { type ConnectionRef, connectionKey } from './connection.ts';
import { connectionOf, OBSERVATION_TYPE, type Silent, type TunnelEvent } from './observation.ts';
import type { RecordedMessage } from './recorded-message.ts';
import { formatRfc3339Ms } from './rfc3339-nanos.ts';

type Gateway = {
  readonly ref: ConnectionRef;
  readonly interfaces: Set<string>;
  gatewayEpoch: number;
  lastHeardUnixMs: number;
  isSilent: boolean;
};

/**
 * Takes the recorded `silent` events out and says anew when gateways were silent for `silentAfterMs`, by the server's
 * times, as gateway-silence does. Outages of NATS, which it forgives, are not in the stream: they count as silence here.
 */
export class SilenceRejudge {
  readonly #silentAfterMs: number;
  readonly #gateways = new Map<string, Gateway>();
  /** Nothing is due before this. */
  #nextDueUnixMs = Number.POSITIVE_INFINITY;

  constructor(silentAfterMs: number) {
    this.#silentAfterMs = silentAfterMs;
  }

  take(message: RecordedMessage): readonly RecordedMessage[] {
    const due = message.storedAtUnixMs >= this.#nextDueUnixMs ? this.#silentBy(message) : [];
    const event = message.event as CloudEvent<TunnelEvent> | undefined;
    if (event?.type !== OBSERVATION_TYPE) return [...due, message];
    const { data } = event;
    if (data.kind === 'silent') return due;
    this.#heard(data, message.storedAtUnixMs);
    return due.length === 0 ? [message] : [...due, message];
  }

  #heard(data: TunnelEvent, storedAtUnixMs: number): void {
    const ref = connectionOf(data);
    const key = connectionKey(ref);
    let gateway = this.#gateways.get(key);
    if (gateway === undefined) {
      gateway = { ref, interfaces: new Set(), gatewayEpoch: 1, lastHeardUnixMs: storedAtUnixMs, isSilent: false };
      this.#gateways.set(key, gateway);
    }
    if (data.gatewayEpoch < gateway.gatewayEpoch) return; // an older run does not speak for the one that counts
    gateway.gatewayEpoch = data.gatewayEpoch;
    if (data.kind === 'unlisted') {
      gateway.interfaces.delete(data.interfaceId);
      return;
    }
    gateway.interfaces.add(data.interfaceId);
    gateway.lastHeardUnixMs = Math.max(gateway.lastHeardUnixMs, storedAtUnixMs);
    gateway.isSilent = false;
    this.#nextDueUnixMs = Math.min(this.#nextDueUnixMs, gateway.lastHeardUnixMs + this.#silentAfterMs);
  }

  #silentBy(message: RecordedMessage): RecordedMessage[] {
    const silent: RecordedMessage[] = [];
    this.#nextDueUnixMs = Number.POSITIVE_INFINITY;
    for (const gateway of this.#gateways.values()) {
      if (gateway.isSilent) continue;
      const dueUnixMs = gateway.lastHeardUnixMs + this.#silentAfterMs;
      if (dueUnixMs > message.storedAtUnixMs) {
        this.#nextDueUnixMs = Math.min(this.#nextDueUnixMs, dueUnixMs);
        continue;
      }
      gateway.isSilent = true;
      for (const interfaceId of gateway.interfaces)
        silent.push(silentMessage(gateway, interfaceId, dueUnixMs, message));
    }
    return silent.sort((a, b) => a.storedAtUnixMs - b.storedAtUnixMs);
  }
}

function silentMessage(
  gateway: Gateway,
  interfaceId: string,
  dueUnixMs: number,
  cause: RecordedMessage,
): RecordedMessage {
  const { ref, gatewayEpoch, lastHeardUnixMs } = gateway;
  const data: Silent = {
    namespace: ref.namespace,
    connection: ref.name,
    interfaceId,
    kind: 'silent',
    gatewayEpoch,
    observedAt: formatRfc3339Ms(dueUnixMs),
    message: `gateway run ${gatewayEpoch} has said nothing since ${formatRfc3339Ms(lastHeardUnixMs)}`,
  };
  const id = `rejudged.silent.${interfaceId}.${dueUnixMs}`;
  return {
    stream: cause.stream,
    sequence: cause.sequence,
    storedAtUnixMs: dueUnixMs,
    event: { id, source: '/replay', type: OBSERVATION_TYPE, data },
  };
}
