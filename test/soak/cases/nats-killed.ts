import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/eventually.ts';
import { FunctionsOnRealParts } from '../../support/functions-on-real-parts.ts';
import type { LongCase } from '../long-case.ts';

const KILLS = 20;
const RESUME_LIMIT_MS = 15_000;
const GIVE_UP_MS = 60_000;

export const natsKilled: LongCase = {
  name: 'C21',
  title: `nats-server is killed ${KILLS} times: work resumes within 15 s each time, no consumer piles up`,
  needs: ['nats-server', 'etcd', 'kube-apiserver'],
  durationMs: 200_000,
  async run({ durationMs, say, signal }) {
    await using parts = await FunctionsOnRealParts.start();
    const replica = await parts.startFunctions(['--gateway-silent-after=30m', '--ping-update-status-interval=0s']);
    await replica.untilReady();
    const gateway = await parts.gateway(1);
    const consumers = await parts.consumerNames();
    const tookMs: number[] = [];
    for (let kill = 1; kill <= KILLS; kill++) {
      await parts.nats.kill();
      await parts.nats.restart();
      const startMs = performance.now();
      const rttMs = kill; // each kill has a latency of its own
      await gateway.pong(rttMs);
      const isWritten = async () => (await parts.tunnel(gateway.ref))?.latency?.value === `${rttMs}ms`;
      await eventually(isWritten, `the observation after kill ${kill}`, GIVE_UP_MS);
      tookMs.push(performance.now() - startMs);
      await sleep(Math.max(0, durationMs / KILLS - (tookMs.at(-1) ?? 0)), undefined, { signal });
    }
    const slowest = Math.max(...tookMs);
    say(`resumed within ${tookMs.map((ms) => (ms / 1_000).toFixed(1)).join(', ')} s`);
    const now = await parts.consumerNames();
    return [
      ...(slowest > RESUME_LIMIT_MS ? [`it took ${(slowest / 1_000).toFixed(1)} s to resume, 15 s are allowed`] : []),
      ...(now.join() === consumers.join() ? [] : [`consumers were ${consumers.join()}, and now are ${now.join()}`]),
    ];
  },
};
