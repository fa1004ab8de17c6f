import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { formatDuration } from '../../shared/domain/duration.ts';
import { eventually } from './eventually.ts';
import type { FunctionsOnRealParts } from './functions-on-real-parts.ts';

export type WriteBudget = {
  readonly tunnels: number;
  readonly durationMs: number;
  readonly pingIntervalMs: number;
  readonly updateIntervalMs: number;
};

export type WritesAtRest = {
  /** Patches by the tunnels' managers, and by connection-aggregate, that the API server took. */
  readonly tunnelWrites: number;
  readonly aggregateWrites: number;
  /** One a tunnel and update interval, and one more for the start. */
  readonly allowed: number;
  readonly ref: ConnectionRef;
};

/** Counts what two replicas write while nothing happens but PONGs of ever other latencies; ends when all queues are empty. */
export async function writesAtRest(parts: FunctionsOnRealParts, budget: WriteBudget): Promise<WritesAtRest> {
  const { tunnels, durationMs, pingIntervalMs, updateIntervalMs } = budget;
  const flags = [`--ping-update-status-interval=${formatDuration(updateIntervalMs)}`, '--gateway-silent-after=30m'];
  const replicas = [await parts.startFunctions(flags), await parts.startFunctions(flags)];
  for (const replica of replicas) await replica.untilReady();
  const gateway = await parts.gateway(tunnels);
  for (const id of gateway.interfaces) await gateway.pong(1, id);
  await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Connected', 'Connected');
  await parts.untilIdle();
  const before = await countsOf(parts, gateway.ref);
  gateway.startPinging(pingIntervalMs);
  await sleep(durationMs);
  await gateway.stopPinging();
  await parts.untilIdle();
  const after = await countsOf(parts, gateway.ref);
  return {
    ref: gateway.ref,
    tunnelWrites: after.tunnels - before.tunnels,
    aggregateWrites: after.aggregates - before.aggregates,
    allowed: tunnels * (Math.ceil(durationMs / updateIntervalMs) + 1),
  };
}

async function countsOf(parts: FunctionsOnRealParts, ref: ConnectionRef) {
  const taken = (await parts.writes(ref)).filter(({ code }) => code === 200);
  return {
    tunnels: taken.filter(({ fieldManager }) => fieldManager?.startsWith('liqo-tunnel')).length,
    aggregates: taken.filter(({ fieldManager }) => fieldManager === 'connection-aggregate').length,
  };
}
