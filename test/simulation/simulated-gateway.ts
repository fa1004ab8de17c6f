import { type BusMessage, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import { gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import { BusError } from '../../shared/ports/event-bus.ts';
import type { World } from './world.ts';

const THRESHOLD = 3;
/** Observations of a tunnel that may be sent again. */
const PAST = 5;
export const INTERVAL_MS = 2_000;
const RESEND_MS = 500;

type Tunnel = { misses: number; value: Observation['value'] };

/**
 * A gateway run as the functions see it: announces itself, again when the bus comes back, then one observation a PING, by
 * the rules of the measuring engine. Its labels are no times but an order: a later run's are all after an earlier one's.
 */
export class SimulatedGateway {
  readonly run: number;
  epoch = 0;
  readonly #world: World;
  readonly #ref: ConnectionRef;
  readonly #tunnels = new Map<string, Tunnel>();
  /** Goes on over a removal: a tunnel that comes back within one run is never behind its own past. */
  readonly #sequences = new Map<string, number>();
  readonly #startedMs: number;
  #labels = 0;
  /** Observations that are let past by the next one of their tunnel. */
  readonly #held = new Map<string, Observation>();
  readonly #past = new Map<string, readonly Observation[]>();
  #resent = 0;
  #isStopped = false;
  #outbox: Promise<unknown> = Promise.resolve();

  constructor(world: World, ref: ConnectionRef, run: number, tunnels: number) {
    this.#world = world;
    this.#ref = ref;
    this.run = run;
    this.#startedMs = world.clock.monotonicMs();
    this.#setTunnels(tunnels);
  }

  start(): void {
    void this.announce().then(() => this.#tick());
    const { broker } = this.#world;
    broker.onOutage(() => {
      if (broker.outage === undefined && this.epoch !== 0 && !this.#isStopped) void this.announce();
    });
  }

  get interfaces(): readonly string[] {
    return [...this.#tunnels.keys()];
  }

  /** The value that each tunnel's last observation carried. */
  values(): ReadonlyMap<string, Observation['value']> {
    return new Map([...this.#tunnels].map(([id, { value }]) => [id, value]));
  }

  scale(tunnels: number): void {
    this.#setTunnels(tunnels);
    void this.announce();
  }

  stop(): void {
    this.#isStopped = true;
  }

  async announce(): Promise<void> {
    const about = {
      namespace: this.#ref.namespace,
      connection: this.#ref.name,
      gatewayName: 'sim',
      mode: 'server',
      remoteClusterId: 'far',
      interfaces: this.interfaces,
      announcedAt: this.#label(),
    } as const;
    const id = `announcement-${this.run}-${this.#labels}`;
    const sequence = await this.#store(() => {
      const data: GatewayAnnouncement = { ...about, ...(this.epoch === 0 ? {} : { epoch: this.epoch }) };
      return encodeCloudEvent(gatewaySubject(this.#ref), { id, source: '/gateways/sim', type: GATEWAY_TYPE, data });
    });
    if (this.epoch === 0) this.epoch = sequence;
  }

  /** In the order of the calls, each again until the bus has it. @returns its sequence */
  #store(message: () => BusMessage): Promise<number> {
    const attempt = async (): Promise<number> => {
      const toStore = message();
      for (;;) {
        try {
          return (await this.#world.bus.publish(toStore)).sequence;
        } catch (err) {
          if (!(err instanceof BusError)) throw err;
          await this.#world.clock.sleep(RESEND_MS);
        }
      }
    };
    const stored = this.#outbox.then(attempt);
    this.#outbox = stored;
    return stored;
  }

  #setTunnels(count: number): void {
    const wanted = Array.from({ length: count }, (_, index) => interfaceIdOf(index));
    for (const id of this.interfaces) if (!wanted.includes(id)) this.#tunnels.delete(id);
    for (const id of wanted) {
      if (!this.#tunnels.has(id)) this.#tunnels.set(id, { misses: 0, value: 'Connecting' });
    }
  }

  #tick(): void {
    if (this.#isStopped) return;
    for (const [id, tunnel] of this.#tunnels) this.#ping(id, tunnel);
    this.#world.clock.after(INTERVAL_MS, () => this.#tick());
  }

  #ping(interfaceId: string, tunnel: Tunnel): void {
    const { random, faults } = this.#world;
    const isUp = this.#world.isLinkUp(interfaceId);
    tunnel.misses = isUp ? 0 : tunnel.misses + 1;
    if (isUp) tunnel.value = 'Connected';
    else if (tunnel.misses >= THRESHOLD) tunnel.value = 'Error';
    const sequence = (this.#sequences.get(interfaceId) ?? 0) + 1;
    this.#sequences.set(interfaceId, sequence);
    const observation: Observation = {
      namespace: this.#ref.namespace,
      connection: this.#ref.name,
      interfaceId,
      gatewayEpoch: this.epoch,
      sequence,
      monotonicMs: this.#world.clock.monotonicMs() - this.#startedMs,
      kind: isUp ? 'pong' : tunnel.value === 'Error' ? 'down' : 'miss',
      value: tunnel.value,
      observedAt: this.#label(),
      ...(isUp ? { rttNs: random.integer(500_000, 5_000_000) } : { consecutiveMisses: tunnel.misses }),
      ...(tunnel.value === 'Error' ? { reason: 'NoPong' } : {}),
    };
    if (random.chance(faults.drop)) return;
    const held = this.#held.get(interfaceId);
    if (held === undefined && random.chance(faults.reorder)) {
      this.#held.set(interfaceId, observation);
      return;
    }
    this.#publish(observation);
    if (random.chance(faults.duplicate)) this.#publish(observation);
    if (held !== undefined) this.#publish(held);
    this.#held.delete(interfaceId);
    const past = this.#past.get(interfaceId) ?? [];
    if (past.length > 0 && random.chance(faults.resend)) {
      this.#resend(random.pick(past));
    }
    this.#past.set(interfaceId, [...past, observation].slice(-PAST));
  }

  /** With a label of its own: where it is written, it shows. */
  #resend({ rttNs: _, ...past }: Observation): void {
    const again: Observation = { ...past, kind: 'down', value: 'Error', reason: 'Resent', observedAt: this.#label() };
    this.#publish(again, `resent${this.run}.${++this.#resent}`);
  }

  #publish(data: Observation, id = `run${this.run}.${data.interfaceId}.${data.sequence}`): void {
    const event = { id, source: '/gateways/sim', type: OBSERVATION_TYPE, data };
    void this.#store(() => encodeCloudEvent(observationSubject(this.#ref, data.interfaceId), event));
  }

  /** Far in the future, so that nobody takes it for a time of the simulated present. */
  #label(): string {
    return new Date(Date.UTC(2030, 0, 1 + this.run) + this.#labels++).toISOString();
  }
}

export function isGatewayLabel(time: string | undefined): time is string {
  return time?.startsWith('2030-') ?? false;
}
