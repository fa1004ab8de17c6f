import { type BusMessage, encodeCloudEvent } from '../../../shared/domain/cloud-event.ts';
import { OBSERVATION_TYPE, type Observation } from '../../../shared/domain/observation.ts';
import { observationSubject } from '../../../shared/domain/subjects.ts';
import { connectionsOf, type Fleet, listedMessage, tunnelsOf, uidOf } from '../scale/fleet.ts';
import { Handler, handledBy } from '../scale/handler.ts';
import type { HandlerConfig } from '../scale/handler-process.ts';
import { Observations } from '../scale/observations.ts';

/** Enough Connections for work in all partitions. */
const FLEET: Fleet = { connections: 64, tunnels: 2 };
const EVENTS = 100_000;
const SETTLE_LIMIT_MS = 120_000;
const EPOCH = 1_767_225_600_000;

export type Throughput = {
  readonly eventsPerSecond: number;
  /** Whatever else the machine was busy with. */
  readonly eventsPerCpuSecond: number;
};

/** How fast handlers get through observations of which none is due for a write; each tunnel was written just before. */
export async function throttled(work: HandlerConfig['work'], replicas = 1): Promise<Throughput> {
  await using observations = await Observations.open();
  const config = { natsUrl: observations.server.url, fleet: FLEET, updateStatusIntervalMs: 10_000 };
  const tunnels = tunnelsOf(FLEET);
  {
    await using first = await Handler.start({ ...config, work: 'tunnel-status' });
    first.begin();
    const places = new Map(connectionsOf(FLEET).map(({ name }, place) => [name, place]));
    await observations.publish(tunnels.map((tunnel) => listedMessage(tunnel, uidOf(places.get(tunnel.ref.name) ?? 0))));
    await observations.publish(tunnels.map((tunnel) => pong(tunnel, 1)));
    await observations.untilSettled(SETTLE_LIMIT_MS);
  }
  await observations.publish(rounds(Math.ceil(EVENTS / tunnels.length)));
  const backlog = await observations.waiting();
  await using cleanUp = new AsyncDisposableStack();
  const starting = Array.from({ length: replicas }, async () => cleanUp.use(await Handler.start({ ...config, work })));
  const handlers = await Promise.all(starting);
  const sampleAll = () => Promise.all(handlers.map((handler) => handler.sample()));
  for (const handler of handlers) handler.begin();
  const startMs = performance.now();
  const startCpuMs = cpuOf(await sampleAll());
  await observations.untilSettled(SETTLE_LIMIT_MS);
  const tookMs = performance.now() - startMs;
  const samples = await sampleAll();
  const counted = samples.reduce((sum, sample) => sum + (sample.outcomes.throttled ?? 0), 0);
  const handled = samples.reduce((sum, sample) => sum + handledBy(sample), 0);
  if (counted < handled) throw new Error(`${handled - counted} of ${handled} observations were not throttled`);
  return {
    eventsPerSecond: (backlog / tookMs) * 1_000,
    eventsPerCpuSecond: (backlog / (cpuOf(samples) - startCpuMs)) * 1_000,
  };
}

function cpuOf(samples: readonly { readonly cpuMs: number }[]): number {
  return samples.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}

function* rounds(count: number): Generator<BusMessage> {
  const tunnels = tunnelsOf(FLEET);
  for (let round = 0; round < count; round++) {
    for (const tunnel of tunnels) yield pong(tunnel, round + 2);
  }
}

/** By its gateway's clock all of them are within a second. */
function pong({ ref, interfaceId }: ReturnType<typeof tunnelsOf>[number], sequence: number): BusMessage {
  const data: Observation = {
    ...{ namespace: ref.namespace, connection: ref.name, interfaceId, gatewayEpoch: EPOCH, sequence },
    ...{ kind: 'pong', value: 'Connected', rttNs: 1_000_000 + sequence, monotonicMs: Math.min(sequence, 1_000) },
    observedAt: new Date(EPOCH + sequence).toISOString(),
  };
  const id = `run.${ref.name}.${interfaceId}.${sequence}`;
  const event = { id, source: '/bench', type: OBSERVATION_TYPE, time: data.observedAt, data };
  return encodeCloudEvent(observationSubject(ref, interfaceId), event);
}
