import { CATALOG } from '../../functions/catalog.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { ConnectionValue } from '../../shared/domain/connection.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import { observationSubject } from '../../shared/domain/subjects.ts';
import type { ConsumerSpec, StreamName } from '../../shared/domain/topology.ts';
import type { StoredMessage } from '../../shared/ports/event-bus.ts';
import { countsTransitions, drawFaults, type Faults, keepsTransitions, NO_FAULTS } from './faults.ts';
import {
  aggregateIsExact,
  connectedTunnelsAreFresh,
  deadLettersComplete,
  neverOlderOverNewer,
  neverOvertaken,
  noGatewayIsSilent,
  noMoreAggregateThanOtherWrites,
  ownedByTheirInterface,
  silenceIsShown,
  statusIsLastObservation,
  transitionsAccountedFor,
  transitionsInOrder,
  writesAreTold,
  writesWithinBudget,
} from './invariants.ts';
import type { Mutation } from './mutations.ts';
import { INTERVAL_MS, SimulatedGateway } from './simulated-gateway.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { REF, World } from './world.ts';

export type SimulationOptions = {
  readonly seed: number;
  /** Faults instead of those drawn from the seed. */
  readonly faults?: Faults;
  /** A fault planted in one of the functions, which the invariants must catch. */
  readonly mutation?: Mutation;
};

export type SimulationReport = {
  readonly seed: number;
  readonly faults: Faults;
  readonly violations: readonly string[];
  readonly trace: readonly string[];
  readonly writes: number;
};

const SETTINGS: FunctionSettings = { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 60_000 };
const FOREIGNER = 'kubectl-edit';
const EDITED_AT = '2026-01-01T00:00:00Z';
const FAULTY_MS = 90_000;
/** Longer than any back-off, freeze or ack wait: after it everything must have come right. */
const HEALING_MS = 90_000;
const REST_MS = 40_000;
/** The update interval, the PING after it, and a retry. */
const OLDEST_LATENCY_MS = SETTINGS.updateStatusIntervalMs + 2 * INTERVAL_MS;

/**
 * Gateways, bus, API and replicas of every function in one process on a virtual clock: first with the faults of the
 * seed, then healed, then with all sources stopped, at last for so long that the gateway counts as silent. The same seed
 * gives the same run.
 */
export async function simulate({ seed, faults, mutation }: SimulationOptions) {
  const world = new World(seed);
  const { random, clock } = world;
  const drawn = faults ?? mutation?.faults ?? drawFaults(random);
  const replicas = random.integer(1, 3);
  world.trace(`seed ${seed}: ${replicas} replicas, faults ${JSON.stringify(drawn)}`);
  const processes = CATALOG.flatMap((definition) =>
    Array.from({ length: replicas }, () => new SimulatedProcess(world, definition, SETTINGS, mutation)),
  );
  const operator = new Operator(world);
  operator.startGateway(random.integer(1, 4));

  world.faults = drawn;
  for (let elapsedMs = 0; elapsedMs < FAULTY_MS; elapsedMs += 1_000) {
    await operator.everySecond();
    await clock.advance(1_000);
  }
  world.faults = NO_FAULTS;
  world.trace('all faults end');
  operator.heal();
  for (const process of processes) process.thaw();
  await clock.advance(HEALING_MS);
  operator.stop();
  const stoppedAtMs = clock.monotonicMs();
  await clock.advance(REST_MS / 2);

  const restedAt = world.connection()?.metadata.resourceVersion;
  const observations = await allOf(world, 'OBSERVATIONS');
  const decisions = (await allOf(world, 'DECISIONS'))
    .map(({ data }) => JSON.parse(new TextDecoder().decode(data)) as Decision)
    .filter((decision) => decision.function === 'tunnel-status');
  const violations = [
    ...statusIsLastObservation(world, operator.gateway),
    ...aggregateIsExact(world),
    ...neverOlderOverNewer(world.writes),
    ...neverOvertaken(observations, world.writes),
    ...(keepsTransitions(drawn) ? transitionsInOrder(observations, world.writes) : []),
    ...(countsTransitions(drawn) ? transitionsAccountedFor(observations, world.writes, decisions) : []),
    ...noGatewayIsSilent(observations),
    ...writesAreTold(world, observations, decisions),
    ...writesWithinBudget(world.writes, {
      durationMs: FAULTY_MS + HEALING_MS,
      updateIntervalMs: SETTINGS.updateStatusIntervalMs,
      resets: operator.resets,
    }),
    ...connectedTunnelsAreFresh(world, operator.gateway, stoppedAtMs, OLDEST_LATENCY_MS),
    ...noMoreAggregateThanOtherWrites(world.writes, operator.otherWrites + world.ensured),
    ...ownedByTheirInterface(world, [FOREIGNER]),
    ...deadLettersComplete((await allOf(world, 'DEAD_LETTERS')).length, operator.malformed),
  ];
  await clock.advance(REST_MS / 2);
  const now = world.connection()?.metadata.resourceVersion;
  if (now !== restedAt) violations.push(`at rest the Connection went from resourceVersion ${restedAt} to ${now}`);
  await clock.advance(SETTINGS.gatewaySilentAfterMs);
  violations.push(...silenceIsShown(world), ...aggregateIsExact(world));
  return {
    seed,
    faults: drawn,
    violations,
    trace: world.traceLines,
    writes: world.writes.length,
  } satisfies SimulationReport;
}

/** Once a stream: its reader goes on from where it was. */
async function allOf(world: World, stream: StreamName): Promise<readonly StoredMessage[]> {
  const messages: StoredMessage[] = [];
  const stop = new AbortController();
  const consumer: ConsumerSpec = {
    durable: `all-of-${stream}`,
    stream,
    filterSubjects: ['>'],
    maxAckPending: 1,
    ackWaitMs: 5_000,
    maxDeliver: 1,
  };
  const reading = world.bus.consume(
    consumer,
    async (delivery) => {
      messages.push(delivery);
      return { kind: 'ack' };
    },
    stop.signal,
  );
  await world.clock.settle();
  stop.abort();
  await reading;
  return messages;
}

/** Who does what no function does: runs the gateways, edits and deletes Connections, cuts links and feeds. */
class Operator {
  gateway!: SimulatedGateway;
  /** Reasons for a write that the throttle does not know of. */
  resets = 0;
  /** Writes to the Connection by nobody of ours. */
  otherWrites = 0;
  malformed = 0;
  readonly #world: World;
  readonly #zombies: SimulatedGateway[] = [];
  #runs = 0;

  constructor(world: World) {
    this.#world = world;
  }

  startGateway(tunnels: number): void {
    this.#runs++;
    this.resets += 2;
    const next = new SimulatedGateway(this.#world, REF, this.#runs, tunnels);
    this.#world.trace(`gateway run ${this.#runs} with ${tunnels} tunnels`);
    if (this.#world.faults.zombieGateway && this.gateway !== undefined) this.#zombies.push(this.gateway);
    else this.gateway?.stop();
    this.gateway = next;
    next.start();
  }

  async everySecond(): Promise<void> {
    const { random, faults, kubernetes } = this.#world;
    const happens = (probability: number) => random.chance(probability);
    if (happens(0.08)) this.#world.toggleLink(random.pick(this.gateway.interfaces));
    if (happens(faults.gatewayRestart)) this.startGateway(this.gateway.interfaces.length);
    if (happens(faults.scale)) this.#scale(random.integer(1, 4));
    if (happens(faults.deleteConnection) && kubernetes.deleteConnection(REF)) {
      this.resets += 2;
      this.#world.trace('the Connection is deleted');
    }
    if (happens(faults.foreignPut)) this.#foreignPut();
    if (happens(faults.clockStep)) this.#world.clock.wallClockErrorMs = random.integer(-3_600_000, 3_600_000);
    if (happens(faults.feedCut)) kubernetes.cutFeeds('simulated');
    else if (happens(0.2)) kubernetes.restoreFeeds();
    if (happens(faults.malformed) && this.#world.broker.outage === undefined) await this.#publishMalformed();
    if (happens(faults.busOutage)) this.#cutBus(random.between(500, 80_000));
  }

  #cutBus(forMs: number): void {
    const { broker, clock } = this.#world;
    if (broker.outage !== undefined) return;
    this.#world.trace(`the bus is away for ${Math.round(forMs)} ms`);
    broker.setOutage('simulated');
    clock.after(forMs, () => this.#restoreBus());
  }

  #restoreBus(): void {
    if (this.#world.broker.outage !== undefined) this.#world.broker.setOutage(undefined);
  }

  heal(): void {
    this.#restoreBus();
    this.#world.kubernetes.restoreFeeds();
    for (const zombie of this.#zombies) zombie.stop();
  }

  stop(): void {
    this.gateway.stop();
    this.#world.trace('the gateway stops');
  }

  #scale(tunnels: number): void {
    this.resets += 2;
    this.#world.trace(`scale to ${tunnels}`);
    if (this.#world.random.chance(0.5)) this.startGateway(tunnels);
    else this.gateway.scale(tunnels);
  }

  #foreignPut(): void {
    if (this.#world.connection() === undefined) return;
    const victim = this.#world.random.pick(this.gateway.interfaces);
    const takesAway = this.#world.random.chance(0.3);
    this.#world.trace(`${FOREIGNER} ${takesAway ? 'removes' : 'edits'} ${victim}`);
    this.resets += 2;
    this.otherWrites++;
    this.#world.kubernetes.foreignPut(REF, FOREIGNER, (status) => ({
      ...status,
      tunnels: (status.tunnels ?? []).flatMap((entry) => {
        if (entry.interfaceID !== victim) return [entry];
        const value: ConnectionValue = entry.value === 'Error' ? 'Connected' : 'Error';
        const edited = {
          ...entry,
          value,
          latency: { value: '9ms', timestamp: EDITED_AT },
          lastTransitionTime: EDITED_AT,
        };
        return takesAway ? [] : [edited];
      }),
    }));
  }

  async #publishMalformed(): Promise<void> {
    this.malformed++;
    const data = { kind: 'pong', interfaceId: 'liqo-tunnel', rttNs: -1 };
    const event = { id: `malformed-${this.malformed}`, source: '/test', type: OBSERVATION_TYPE, data };
    await this.#world.bus.publish(encodeCloudEvent(observationSubject(REF, 'liqo-tunnel'), event));
  }
}
