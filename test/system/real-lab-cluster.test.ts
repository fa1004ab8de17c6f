import { jetstreamManager } from '@nats-io/jetstream';
import { expect, test } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import type { NatsServer } from '../../infra/servers/launch-nats.ts';
import { NatsLink } from '../../shared/adapters/nats-link.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { STATE_BUCKET, STREAMS } from '../../shared/domain/topology.ts';
import { GATEWAY_MODES } from '../../shared/domain/tunnel-interface.ts';
import { eventually } from '../support/eventually.ts';
import {
  GRACE_MS,
  labOfSuite,
  REAL_LAB_NEEDS,
  reaches,
  scenario,
  seenByGateways,
  transitions,
} from '../support/real-lab.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const TUNNELS = 2;
const ALL_CONNECTED = ['Connected', 'Connected'] as const;
const TIMEOUT = { timeout: 6 * GRACE_MS };

await describeReal('real lab on a NATS cluster of three, with two replicas of every function', REAL_LAB_NEEDS, () => {
  const current = labOfSuite(async () => {
    const { ping, functions } = await scenario('one-tunnel-cut');
    return { tunnels: TUNNELS, ping, functions, replicas: 2, natsReplicas: 3 };
  });

  /** Asks the cluster, whichever of its servers is there. */
  async function withStreams<Result>(ask: (manager: Awaited<ReturnType<typeof jetstreamManager>>) => Promise<Result>) {
    const link = NatsLink.open({ servers: current.lab.nats.urls, name: 'test' }, systemClock, silentLogger);
    try {
      return await ask(await jetstreamManager(await link.whenUp(), { checkAPI: false }));
    } finally {
      await link.close();
    }
  }

  /** The server that leads OBSERVATIONS, once there is one. */
  async function leaderOfObservations(): Promise<NatsServer> {
    let leader: NatsServer | undefined;
    await eventually(
      async () => {
        const info = await withStreams((manager) => manager.streams.info('OBSERVATIONS')).catch(() => undefined);
        leader = current.lab.nats.servers.find(({ serverName }) => serverName === info?.cluster?.leader);
        return leader?.isRunning === true;
      },
      'a leader of OBSERVATIONS',
      GRACE_MS,
    );
    return leader ?? expect.fail('no leader');
  }

  test('every stream, consumer and the bucket have three copies', TIMEOUT, async () => {
    await reaches(current.lab, 'Connected', ALL_CONNECTED);
    const copies = await withStreams(async (manager) => {
      const found: (readonly [string, number])[] = [];
      for (const stream of [...STREAMS.map(({ name }) => name), `KV_${STATE_BUCKET}`]) {
        const { cluster } = await manager.streams.info(stream);
        found.push([stream, 1 + (cluster?.replicas?.length ?? 0)]);
        for await (const consumer of manager.consumers.list(stream)) {
          found.push([`${stream}/${consumer.name}`, 1 + (consumer.cluster?.replicas?.length ?? 0)]);
        }
      }
      return found;
    });
    const consumers = CATALOG.flatMap(({ manifest }) => ('consumers' in manifest ? manifest.consumers : []));
    expect(copies.length).toBe(STREAMS.length + 1 + consumers.length);
    expect(copies.filter(([, count]) => count !== 3)).toEqual([]);
  });

  test('a leader that is killed while a tunnel fails and recovers loses no transition', TIMEOUT, async () => {
    const { lab } = current;
    const before = await transitions(lab, 'liqo-tunnel1');
    const leaders = [
      ['of OBSERVATIONS', leaderOfObservations],
      ['of the cluster', async () => (await lab.nats.leader()) ?? expect.fail('the cluster has no leader')],
    ] as const;
    for (const [, find] of leaders) {
      const leader = await find();
      const killed = leader.kill();
      await lab.cut('liqo-tunnel1');
      await seenByGateways(lab, 'liqo-tunnel1', 0);
      await lab.restore('liqo-tunnel1');
      await seenByGateways(lab, 'liqo-tunnel1', 1);
      await killed;
      await reaches(lab, 'Connected', ALL_CONNECTED); // by the two that are left
      await leader.restart();
    }
    const want = leaders.flatMap(() => ['Error', 'Connected']);
    for (const side of GATEWAY_MODES) {
      const since = async () => (await transitions(lab, 'liqo-tunnel1'))[side].slice(before[side].length);
      await eventually(async () => (await since()).length === want.length, 'all transitions', GRACE_MS).catch(() => {});
      expect(await since()).toEqual(want);
    }
  });

  test('stops with nothing left undelivered', TIMEOUT, async () => {
    expect(await current.stop()).toEqual({ unsent: 0 });
  });
});
