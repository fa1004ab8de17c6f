import { CATALOG } from '../../functions/catalog.ts';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { type CloudEvent, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { Connection, TunnelEntry } from '../../shared/domain/connection.ts';
import type { Decision, OutcomeName } from '../../shared/domain/decision.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import { gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import type { ConnectionStore } from '../../shared/ports/connection-store.ts';
import type { EventBus } from '../../shared/ports/event-bus.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { StateStore } from '../../shared/ports/state-store.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import { CountingMeter } from './counting-meter.ts';
import { silentLogger } from './silent-logger.ts';
import { VirtualClock } from './virtual-clock.ts';

export const REF = { namespace: 'liqo-tenant-rome', name: 'gw-rome' };
export const SETTINGS: FunctionSettings = { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 30_000 };

/** Functions on embedded parts and a virtual clock, with gateways that say what the test wants. */
export class FunctionWorld {
  readonly clock = new VirtualClock();
  readonly broker = new EmbeddedBroker({ clock: this.clock });
  /** A test may put an empty one in its place: replicas that start later get that. */
  state = new EmbeddedStateStore();
  readonly kubernetes: EmbeddedKubernetes;
  readonly meter = new CountingMeter();
  readonly decisions: Decision[] = [];
  readonly #outside: EmbeddedBus;
  #uids = 0;

  constructor() {
    this.kubernetes = new EmbeddedKubernetes({ clock: this.clock, newUid: () => `uid-${++this.#uids}` });
    this.#outside = new EmbeddedBus(this.broker, this.clock);
    const seen = new AbortController();
    this.#outside.subscribe(
      'live.decisions.>',
      ({ data }) => this.decisions.push(JSON.parse(new TextDecoder().decode(data)) as Decision),
      seen.signal,
    );
  }

  /** One replica, in a "process" of its own: `crash` leaves what it holds unsettled. */
  start(
    name: string,
    options: {
      readonly settings?: FunctionSettings;
      readonly connections?: (store: ConnectionStore) => ConnectionStore;
      readonly bus?: (bus: EventBus) => EventBus;
      readonly state?: (state: StateStore) => StateStore;
    } = {},
  ): { stop(): Promise<void>; crash(): Promise<void> } {
    const definition = CATALOG.find(({ manifest }) => manifest.name === name);
    if (definition === undefined) throw new Error(`no function ${name} in the catalog`);
    const bus = new EmbeddedBus(this.broker, this.clock);
    const store = new EmbeddedConnectionStore(this.kubernetes);
    const ports: FunctionPorts = {
      bus: options.bus?.(bus) ?? bus,
      state: options.state?.(this.state) ?? this.state,
      connections: options.connections?.(store) ?? store,
      feed: new EmbeddedChangeFeed(this.kubernetes),
      clock: this.clock,
      meter: this.meter,
      log: silentLogger,
    };
    const stopping = new AbortController();
    const done = runReplica(definition, ports, options.settings ?? SETTINGS, stopping.signal);
    return {
      async stop() {
        stopping.abort();
        await done;
        await bus.close();
      },
      async crash() {
        await bus.close();
        stopping.abort();
      },
    };
  }

  startAll(replicas = 1): void {
    for (const { manifest } of CATALOG) {
      for (let replica = 0; replica < replicas; replica++) this.start(manifest.name);
    }
  }

  /** @returns the sequence in GATEWAYS, which is the epoch of a first announcement */
  async announce(interfaces: readonly string[], more: Partial<GatewayAnnouncement> = {}): Promise<number> {
    const data: GatewayAnnouncement = {
      namespace: REF.namespace,
      connection: REF.name,
      gatewayName: 'rome',
      gatewayUid: 'gateway-uid',
      mode: 'server',
      remoteClusterId: 'milan',
      interfaces,
      announcedAt: this.now(),
      ...more,
    };
    const { sequence } = await this.publish(gatewaySubject(REF), GATEWAY_TYPE, data);
    await this.clock.settle();
    return sequence;
  }

  async observe(...said: Parameters<FunctionWorld['say']>) {
    await this.say(...said);
    await this.clock.settle();
  }

  /** An observation that the functions have not handled yet. */
  async say(
    observation: Partial<Observation> & Pick<Observation, 'gatewayEpoch' | 'sequence' | 'kind'>,
    eventId?: string,
  ) {
    const kind = observation.kind;
    const data: Observation = {
      namespace: REF.namespace,
      connection: REF.name,
      interfaceId: 'liqo-tunnel',
      monotonicMs: this.clock.monotonicMs(),
      value: kind === 'down' ? 'Error' : 'Connected',
      observedAt: this.now(),
      ...(kind === 'pong' ? { rttNs: 1_000_000 } : {}),
      ...observation,
    };
    const id = eventId ?? `run-${data.gatewayEpoch}.${data.interfaceId}.${data.sequence}`;
    await this.publish(observationSubject(REF, data.interfaceId), OBSERVATION_TYPE, data, id);
  }

  async publish(subject: string, type: string, data: unknown, id = `test-${++this.#uids}`) {
    const event: CloudEvent = { id, source: '/test', type, data };
    return this.#outside.publish(encodeCloudEvent(subject, event));
  }

  async lastMessages(...query: Parameters<EmbeddedBus['lastMessages']>) {
    return this.#outside.lastMessages(...query);
  }

  now(): string {
    return new Date(this.clock.unixMs()).toISOString();
  }

  connection(): Connection | undefined {
    return this.kubernetes.get(REF);
  }

  tunnel(interfaceId = 'liqo-tunnel'): TunnelEntry | undefined {
    return this.connection()?.status?.tunnels?.find(({ interfaceID }) => interfaceID === interfaceId);
  }

  /** Events of a function that ended so. */
  count(functionName: string, outcome: OutcomeName): number {
    return this.meter.of('wg_keepalive_events_total', functionName, outcome);
  }
}

/** With one replica of each of these. */
export function worldWith(...functions: readonly string[]): FunctionWorld {
  const world = new FunctionWorld();
  for (const name of functions) world.start(name);
  return world;
}
