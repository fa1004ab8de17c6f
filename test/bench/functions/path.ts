import { setTimeout as sleep } from 'node:timers/promises';
import { KubernetesChangeFeed } from '../../../shared/adapters/kubernetes-change-feed.ts';
import { systemClock } from '../../../shared/adapters/system-clock.ts';
import type { Change } from '../../../shared/domain/change.ts';
import type { ConnectionRef } from '../../../shared/domain/connection.ts';
import { eventually } from '../../support/eventually.ts';
import { FunctionsOnRealParts } from '../../support/functions-on-real-parts.ts';
import { writesAtRest } from '../../support/writes-at-rest.ts';

const VERDICTS = 60;
/** A verdict is over before the next one comes. */
const PAUSE_MS = 100;
const GATEWAYS = 16;
const FLAP_MS = 250;
/** Ack wait and a second are the goal; what takes longer than this hangs. */
const KILL_LIMIT_MS = 60_000;

/** From a verdict's publish until a watcher sees `status.value` change, in ms each; 4 tunnels, one replica of everything. */
export async function verdictTimes(): Promise<readonly number[]> {
  await using parts = await FunctionsOnRealParts.start();
  await (await parts.startFunctions()).untilReady();
  const gateway = await parts.gateway(4);
  await using watcher = await Watcher.start(parts, gateway.ref);
  for (const id of gateway.interfaces) await gateway.pong(1, id);
  await watcher.untilShown('Connected');
  const tookMs: number[] = [];
  for (let n = 0; n < VERDICTS; n++) {
    await sleep(PAUSE_MS);
    const startMs = performance.now();
    const isDown = n % 2 === 0;
    await (isDown ? gateway.down('liqo-tunnel2') : gateway.pong(1, 'liqo-tunnel2'));
    tookMs.push((await watcher.untilShown(isDown ? 'Error' : 'Connected')) - startMs);
  }
  return tookMs;
}

/** The least that the two writes of a verdict can take: a tunnel's entry and the aggregate, one after the other. */
export async function writeTimes(): Promise<readonly number[]> {
  await using parts = await FunctionsOnRealParts.start();
  const replica = await (await parts.startFunctions()).untilReady();
  const gateway = await parts.gateway(4);
  await replica.stop();
  await using watcher = await Watcher.start(parts, gateway.ref);
  const tookMs: number[] = [];
  for (let n = 0; n < VERDICTS; n++) {
    await sleep(PAUSE_MS);
    const startMs = performance.now();
    const value = n % 2 === 0 ? 'Error' : 'Connected';
    const lastTransitionTime = new Date().toISOString();
    await parts.store.applyTunnel(gateway.ref, { interfaceID: 'liqo-tunnel2', value, lastTransitionTime });
    await parts.store.applyAggregate(gateway.ref, {
      value,
      conditions: [{ type: 'Ready', status: 'False', reason: 'Bench', message: `${n}`, lastTransitionTime }],
    });
    tookMs.push((await watcher.untilShown(value)) - startMs);
  }
  return tookMs;
}

/** Writes a minute of 64 tunnels at rest, two replicas, the defaults of production. */
export async function writesOf64(): Promise<{ readonly tunnels: number; readonly aggregates: number }> {
  await using parts = await FunctionsOnRealParts.start();
  const budget = { tunnels: 64, durationMs: 60_000, pingIntervalMs: 2_000, updateIntervalMs: 10_000 };
  const { tunnelWrites, aggregateWrites } = await writesAtRest(parts, budget);
  return { tunnels: tunnelWrites, aggregates: aggregateWrites };
}

/** The longest that a verdict waited to be written, of tunnels in all partitions, while one of two replicas was killed. */
export async function longestAfterKill(): Promise<number> {
  await using parts = await FunctionsOnRealParts.start();
  const [victim, other] = [await parts.startFunctions(), await parts.startFunctions()];
  await Promise.all([victim.untilReady(), other.untilReady()]);
  const gateways = await Promise.all(Array.from({ length: GATEWAYS }, () => parts.gateway()));
  /** By namespace and sequence: verdicts that are not known to be written. */
  const saidMs = new Map<string, Map<number, number>>();
  let isDown = false;
  const flap = async () => {
    isDown = !isDown;
    for (const gateway of gateways) {
      await (isDown ? gateway.down() : gateway.pong(1));
      const said = saidMs.get(gateway.ref.namespace) ?? new Map<number, number>();
      saidMs.set(gateway.ref.namespace, said.set(gateway.last.get('liqo-tunnel')?.sequence ?? 0, performance.now()));
    }
  };
  let longestMs = 0;
  let read = parts.decisions.length;
  const settle = () => {
    for (; read < parts.decisions.length; read++) {
      const { namespace = '', eventId, reason } = parts.decisions[read] ?? {};
      if (reason !== 'Transition') continue;
      const sequence = Number(eventId?.split('.').at(-1));
      // Those before it are written too: one that died between its write and its decision told nobody.
      for (const [said, startMs] of saidMs.get(namespace) ?? []) {
        if (said > sequence) break;
        saidMs.get(namespace)?.delete(said);
        longestMs = Math.max(longestMs, performance.now() - startMs);
      }
    }
    return [...saidMs.values()].every(({ size }) => size === 0);
  };
  for (let round = 0; round < 40; round++) {
    await flap();
    if (round === 12) victim.signal('SIGKILL');
    await sleep(FLAP_MS);
    settle();
  }
  await eventually(settle, 'every verdict to be written', KILL_LIMIT_MS);
  return longestMs;
}

/** A watch of its own, as anybody has it who looks at Connections. */
class Watcher implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #shown: string | undefined;
  #wake = Promise.withResolvers<void>();

  private constructor(feed: KubernetesChangeFeed, { name }: ConnectionRef) {
    this.#running = feed.run(async ({ object }: Change) => {
      if (object.metadata.name !== name) return;
      this.#shown = 'status' in object ? object.status?.value : undefined;
      this.#wake.resolve();
    }, this.#stop.signal);
  }

  static async start({ kubernetes }: FunctionsOnRealParts, ref: ConnectionRef): Promise<Watcher> {
    const options = { clock: systemClock, random: Math.random, namespaces: [ref.namespace] };
    const feed = new KubernetesChangeFeed(kubernetes.admin, options);
    const watcher = new Watcher(feed, ref);
    await eventually(() => feed.health().live, 'the watch');
    return watcher;
  }

  /** @returns when it was seen, on the clock of `performance` */
  async untilShown(value: string): Promise<number> {
    while (this.#shown !== value) {
      this.#wake = Promise.withResolvers();
      await this.#wake.promise;
    }
    return performance.now();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}
