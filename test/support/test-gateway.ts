import { setTimeout as sleep } from 'node:timers/promises';
import type { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { type BusMessage, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import { gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';

const RETRY_MS = 50;

/** A gateway run as the bus sees it: says what the test wants, in order, again until it is stored. */
export class TestGateway implements AsyncDisposable {
  readonly ref: ConnectionRef;
  readonly interfaces: readonly string[];
  epoch = 0;
  /** What each tunnel said last. */
  readonly last = new Map<string, Observation>();
  readonly #bus: NatsBus;
  readonly #runId = crypto.randomUUID().slice(0, 8);
  readonly #startedMs = performance.now();
  readonly #end = new AbortController();
  #announcements = 0;
  #pinging: { readonly stop: AbortController; readonly done: Promise<void> } | undefined;

  constructor(bus: NatsBus, namespace: string, tunnels: number) {
    this.#bus = bus;
    this.ref = { namespace, name: 'gw-rome' };
    this.interfaces = Array.from({ length: tunnels }, (_, index) => interfaceIdOf(index));
  }

  async announce(interfaces: readonly string[] = this.interfaces): Promise<this> {
    const data: GatewayAnnouncement = {
      ...{ namespace: this.ref.namespace, connection: this.ref.name, gatewayName: 'rome', mode: 'server' },
      ...{ remoteClusterId: 'milan', interfaces, announcedAt: new Date().toISOString() },
      ...(this.epoch > 0 && { epoch: this.epoch }),
    };
    const id = `${this.#runId}.announcement.${++this.#announcements}`;
    const event = { id, source: '/test', type: GATEWAY_TYPE, data };
    const { sequence } = await this.#surely(encodeCloudEvent(gatewaySubject(this.ref), event));
    if (this.epoch === 0) this.epoch = sequence;
    return this;
  }

  /** A PONG after `rttMs`. */
  pong(rttMs: number, interfaceId = interfaceIdOf(0), more: Partial<Observation> = {}): Promise<void> {
    return this.observe(interfaceId, { kind: 'pong', value: 'Connected', rttNs: Math.round(rttMs * 1e6), ...more });
  }

  down(interfaceId = interfaceIdOf(0)): Promise<void> {
    return this.observe(interfaceId, { kind: 'down', value: 'Error', reason: 'NoPong', message: 'by the test' });
  }

  async observe(interfaceId: string, what: Partial<Observation> & Pick<Observation, 'kind' | 'value'>): Promise<void> {
    await this.#surely(this.message(interfaceId, what));
  }

  /** The next observation of a tunnel, for who publishes it by himself. */
  message(interfaceId: string, what: Partial<Observation> & Pick<Observation, 'kind' | 'value'>): BusMessage {
    const data: Observation = {
      ...{ namespace: this.ref.namespace, connection: this.ref.name, interfaceId, gatewayEpoch: this.epoch },
      sequence: (this.last.get(interfaceId)?.sequence ?? 0) + 1,
      monotonicMs: performance.now() - this.#startedMs,
      observedAt: new Date().toISOString(),
      ...what,
    };
    this.last.set(interfaceId, data);
    const id = `${this.#runId}.${interfaceId}.${data.sequence}`;
    const event = { id, source: '/test', type: OBSERVATION_TYPE, data };
    return encodeCloudEvent(observationSubject(this.ref, interfaceId), event);
  }

  /** One observation a tunnel each interval until {@link stopPinging}: PONGs of random length, or what `what` says. */
  startPinging(intervalMs: number, what: (interfaceId: string) => 'pong' | 'down' = () => 'pong'): void {
    const stop = new AbortController();
    const done = (async () => {
      while (!stop.signal.aborted) {
        for (const id of this.interfaces) {
          await (what(id) === 'pong' ? this.pong(1 + Math.random(), id) : this.down(id));
        }
        await sleep(intervalMs, undefined, { signal: stop.signal }).catch(() => {});
      }
    })();
    done.catch(() => {}); // told by stopPinging
    this.#pinging = { stop, done };
  }

  async stopPinging(): Promise<void> {
    this.#pinging?.stop.abort();
    await this.#pinging?.done;
  }

  /** Nobody waits any more for what is not stored yet. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort(new Error('the gateway has ended'));
    await this.stopPinging().catch(() => {});
  }

  /** As the outbox does: the same id until it is acknowledged. */
  async #surely(message: BusMessage): Promise<{ readonly sequence: number }> {
    for (;;) {
      this.#end.signal.throwIfAborted();
      try {
        return await this.#bus.publish(message, { timeoutMs: 1_000 });
      } catch {
        await sleep(RETRY_MS);
      }
    }
  }
}
