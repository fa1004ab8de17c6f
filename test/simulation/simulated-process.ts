import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import type { Clock, Timer } from '../../shared/ports/clock.ts';
import { type ConnectionStore, StoreError, type WriteOptions } from '../../shared/ports/connection-store.ts';
import { BusError, type EventBus } from '../../shared/ports/event-bus.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { StateStore } from '../../shared/ports/state-store.ts';
import type { FunctionDefinition } from '../../shared/runtime/define-function.ts';
import type { WorkerDefinition } from '../../shared/runtime/define-worker.ts';
import { runReplica } from '../../shared/runtime/run-replica.ts';
import type { Mutation } from './mutations.ts';
import type { World } from './world.ts';

/**
 * One replica of one function in a process that may die or freeze at any call it makes: before the call, or after it
 * has had its effect. A process that dies is started again; one that froze wakes and goes on as if nothing had happened.
 */
export class SimulatedProcess {
  readonly #world: World;
  readonly #definition: FunctionDefinition | WorkerDefinition;
  readonly #settings: FunctionSettings;
  readonly #mutation: Mutation | undefined;
  #life = new Life();

  constructor(
    world: World,
    definition: FunctionDefinition | WorkerDefinition,
    settings: FunctionSettings,
    mutation?: Mutation,
  ) {
    this.#world = world;
    this.#mutation = mutation?.of === definition.manifest.name ? mutation : undefined;
    this.#definition =
      'run' in definition ? definition : (this.#mutation?.definition?.(definition, world) ?? definition);
    this.#settings = settings;
    this.#start();
  }

  get name(): string {
    return this.#definition.manifest.name;
  }

  /** What a process cannot survive; it is started again a little later. */
  crash(): void {
    if (this.#life.isDead) return;
    this.#world.trace(`${this.name} crashes`);
    this.#life.die();
    this.#world.clock.after(this.#world.random.between(50, 3_000), () => this.#start());
  }

  thaw(): void {
    this.#life.thaw();
  }

  #start(): void {
    const life = new Life();
    this.#life = life;
    const clock = new ProcessClock(this.#world.clock, life);
    const bus = new EmbeddedBus(this.#world.broker, clock);
    life.onDeath = () => void bus.close();
    const ports: FunctionPorts = {
      bus: this.#faultyBus(bus, life),
      state: this.#faultyState(this.#world.state, life),
      connections: this.#faultyStore(this.#world.storeOf(this.name), life),
      feed: new EmbeddedChangeFeed(this.#world.kubernetes),
      clock,
      meter: this.#world.meter,
      log: this.#world.log,
    };
    const changed = { ...ports, ...this.#mutation?.ports?.(ports, this.#world) };
    void runReplica(this.#definition, changed, this.#settings, life.signal);
  }

  /** Passes one call through, or ends the process before or after it. */
  async #through<T>(life: Life, call: () => Promise<T>): Promise<T> {
    const { random, faults } = this.#world;
    await life.alive();
    if (random.chance(faults.freeze)) this.#freeze(life);
    if (random.chance(faults.crash)) this.crash();
    await life.alive();
    const result = await call();
    if (random.chance(faults.crash)) this.crash();
    await life.alive();
    return result;
  }

  #freeze(life: Life): void {
    const forMs = this.#world.random.between(500, 20_000);
    this.#world.trace(`${this.name} freezes for ${Math.round(forMs)} ms`);
    life.freeze();
    this.#world.clock.after(forMs, () => life.thaw());
  }

  /** Some calls get no answer, be it that they were done or not. */
  async #unanswered<T>(share: number, call: () => Promise<T>): Promise<T> {
    const { random } = this.#world;
    const fails = random.chance(share);
    if (fails && random.chance(0.5)) throw new BusError('timeout', 'simulated: no answer');
    const result = await call();
    if (fails) throw new BusError('timeout', 'simulated: the answer was lost');
    return result;
  }

  #faultyBus(bus: EmbeddedBus, life: Life): EventBus {
    const faulty = <T>(call: () => Promise<T>) =>
      this.#through(life, () => this.#unanswered(this.#world.faults.busError, call));
    return {
      publish: (message) => faulty(() => bus.publish(message)),
      publishAfter: (...call) => faulty(() => bus.publishAfter(...call)),
      schedule: (...call) => faulty(() => bus.schedule(...call)),
      lastMessages: (...call) => faulty(() => bus.lastMessages(...call)),
      consume: (consumer, handle, signal) =>
        bus.consume(
          consumer,
          async (delivery) => {
            await this.#through(life, async () => {});
            const settlement = await handle(delivery);
            await this.#through(life, async () => {});
            return settlement;
          },
          signal,
        ),
      health: () => bus.health(),
      onHealthChange: (listener) => bus.onHealthChange(listener),
      close: () => bus.close(),
    };
  }

  #faultyState(state: StateStore, life: Life): StateStore {
    const faulty = <T>(call: () => Promise<T>) =>
      this.#through(life, async () => {
        const { broker, faults } = this.#world;
        if (broker.outage !== undefined) throw new BusError('unavailable', broker.outage);
        return this.#unanswered(faults.stateError, call);
      });
    return {
      get: (...call) => faulty(() => state.get(...call)),
      put: (...call) => faulty(() => state.put(...call)),
      delete: (...call) => faulty(() => state.delete(...call)),
    };
  }

  #faultyStore(store: ConnectionStore, life: Life): ConnectionStore {
    const { random } = this.#world;
    const faulty = async <T>(call: () => Promise<T>, isWrite = true): Promise<T> => {
      const { apiDelayMs, apiError, apiConflict, apiLate } = this.#world.faults;
      await this.#world.clock.sleep(random.between(0, apiDelayMs));
      const fails = random.chance(apiError);
      if (fails && random.chance(0.5)) {
        throw random.chance(0.5)
          ? new StoreError('busy', 'simulated: too many requests', { status: 429, retryAfterMs: 1_000 })
          : new StoreError('unavailable', 'simulated: internal error', { status: 500 });
      }
      if (isWrite && random.chance(apiConflict)) throw new StoreError('conflict', 'simulated', { status: 409 });
      if (isWrite && random.chance(apiLate)) {
        this.#world.clock.after(random.between(500, 12_000), () => void call().catch(() => {}));
        throw new StoreError('unavailable', 'simulated: no answer in time, the request is still under way');
      }
      const result = await call();
      if (fails) throw new StoreError('unavailable', 'simulated: the answer was lost', { status: 0 });
      return result;
    };
    return {
      get: (...call) => this.#through(life, () => faulty(() => store.get(...call), false)),
      ensure: (...call) => this.#through(life, () => faulty(() => store.ensure(...call), false)),
      applyTunnel: (ref, entry, options) =>
        this.#through(life, () => faulty(() => store.applyTunnel(ref, entry, atTheServer(options)))),
      removeTunnel: (ref, id, options) =>
        this.#through(life, () => faulty(() => store.removeTunnel(ref, id, atTheServer(options)))),
      applyAggregate: (ref, status, options) =>
        this.#through(life, () => faulty(() => store.applyAggregate(ref, status, atTheServer(options)))),
    };
  }
}

/** What the server sees of a call: who gives it up does not take it back. */
function atTheServer({ resourceVersion }: WriteOptions = {}): WriteOptions {
  return resourceVersion === undefined ? {} : { resourceVersion };
}

/** One run of a process, from its start to its death. */
class Life {
  onDeath: () => void = () => {};
  readonly #end = new AbortController();
  #thawed: PromiseWithResolvers<void> | undefined;

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  get isDead(): boolean {
    return this.#end.signal.aborted;
  }

  /** Resolves when the process can go on; never, once it is dead. */
  async alive(): Promise<void> {
    while (this.#thawed !== undefined && !this.isDead) await this.#thawed.promise;
    if (this.isDead) await new Promise(() => {});
  }

  /** Runs `task` now, or when the process thaws; never, once it is dead. */
  whenAlive(task: () => void): void {
    if (this.isDead) return;
    if (this.#thawed === undefined) task();
    else void this.#thawed.promise.then(() => this.whenAlive(task));
  }

  die(): void {
    this.onDeath();
    this.#end.abort(new Error('simulated crash'));
    this.thaw();
  }

  freeze(): void {
    this.#thawed ??= Promise.withResolvers<void>();
  }

  thaw(): void {
    this.#thawed?.resolve();
    this.#thawed = undefined;
  }
}

/** A process's own view of the clock: its timers wait while it is frozen, its wall clock may be wrong. */
class ProcessClock implements Clock {
  readonly #world: World['clock'];
  readonly #life: Life;

  constructor(world: World['clock'], life: Life) {
    this.#world = world;
    this.#life = life;
  }

  monotonicMs(): number {
    return this.#world.monotonicMs();
  }

  unixMs(): number {
    return this.#world.unixMs() + this.#world.wallClockErrorMs;
  }

  after(delayMs: number, task: () => void): Timer {
    return this.#world.after(delayMs, () => this.#life.whenAlive(task));
  }

  async sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    await this.#world.sleep(delayMs, signal);
    await this.#life.alive();
  }
}
