import { setTimeout as sleep } from 'node:timers/promises';
import { AGGREGATE_FIELD_MANAGER } from '../../../shared/domain/connection.ts';
import { FunctionsOnRealParts } from '../../support/functions-on-real-parts.ts';
import type { LongCase } from '../long-case.ts';

const TUNNELS = 8;
const INTERVAL_MS = 2_000;
const UPDATE_INTERVAL_MS = 10_000;
/** In which a status that feeds itself would be written again. */
const QUIET_MS = 60_000;

/** One write a tunnel each update interval at most, and as many of the aggregate; nothing once nobody says anything. */
export const writeStorm: LongCase = {
  name: 'C15',
  title: '8 tunnels, 2 replicas: no more writes than the throttle allows, and none by themselves',
  needs: ['nats-server', 'etcd', 'kube-apiserver'],
  durationMs: 600_000,
  async run({ durationMs, say, signal }) {
    await using parts = await FunctionsOnRealParts.start();
    const flags = ['--gateway-silent-after=30m']; // the end of this gateway is no news
    const replicas = [await parts.startFunctions(flags), await parts.startFunctions(flags)];
    for (const replica of replicas) await replica.untilReady();
    const gateway = await parts.gateway(TUNNELS);
    const before = (await parts.writes(gateway.ref)).length;
    gateway.startPinging(INTERVAL_MS);
    await sleep(durationMs, undefined, { signal });
    await gateway.stopPinging();
    await parts.untilIdle();
    const writes = (await parts.writes(gateway.ref)).slice(before);
    const patches = Object.groupBy(writes, ({ fieldManager }) =>
      fieldManager === AGGREGATE_FIELD_MANAGER ? 'ofAggregate' : 'ofTunnels',
    );
    const { ofTunnels = [], ofAggregate = [] } = patches;
    const allowed = TUNNELS * (durationMs / UPDATE_INTERVAL_MS);
    const conflicts = (some: typeof writes) => some.filter(({ code }) => code === 409).length;
    const told = (some: typeof writes) => `${some.length} (${conflicts(some)} of them conflicts)`;
    say(
      `patches: ${told(ofTunnels)} of tunnels, ${told(ofAggregate)} of the aggregate; ${allowed} of each are allowed`,
    );
    const version = async () => (await parts.connection(gateway.ref))?.metadata.resourceVersion;
    const quiet = await version();
    await sleep(QUIET_MS, undefined, { signal });
    const later = await version();
    return [
      ...(ofTunnels.length > allowed ? [`${ofTunnels.length} patches of tunnels, ${allowed} are allowed`] : []),
      ...(ofAggregate.length > allowed
        ? [`${ofAggregate.length} patches of the aggregate, ${allowed} are allowed`]
        : []),
      ...(ofTunnels.length === 0 ? ['nothing was written: the case shows nothing'] : []),
      ...(quiet === later ? [] : [`resourceVersion ${quiet} became ${later} while nobody said anything`]),
    ];
  },
};
