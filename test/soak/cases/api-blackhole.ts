import { setTimeout as sleep } from 'node:timers/promises';
import { KubernetesConnectionStore } from '../../../shared/adapters/kubernetes-connection-store.ts';
import { MESSAGE_ID_HEADER } from '../../../shared/domain/cloud-event.ts';
import { changeSubject } from '../../../shared/domain/subjects.ts';
import { connected, desiredConnection } from '../../contract/connection-store.contract.ts';
import { eventually } from '../../support/eventually.ts';
import { KubernetesUnderTest } from '../../support/kubernetes.ts';
import { startNatsHarness } from '../../support/nats-harness.ts';
import { WgKeepalive } from '../../support/wg-keepalive.ts';
import type { LongCase } from '../long-case.ts';

const TOLD_LIMIT_MS = 60_000;
/** A silent watch is noticed within its window and grace, 30 s; a call within 10 s. */
const NOTICED_LIMIT_MS = 35_000;
const LOOK_EVERY_MS = 100;

export const apiBlackhole: LongCase = {
  name: 'C17',
  title:
    'API traffic vanishes for 90 s and the API server restarts meanwhile: not ready, then an edit is told within 60 s',
  needs: ['nats-server', 'etcd', 'kube-apiserver'],
  durationMs: 90_000,
  async run({ durationMs, say, signal }) {
    await using kubernetes = await KubernetesUnderTest.start();
    await using nats = await startNatsHarness();
    const bus = await nats.connect();
    const store = new KubernetesConnectionStore(kubernetes.admin);
    const { connection } = await store.ensure(desiredConnection(await kubernetes.namespace()));
    const { relay, server } = await kubernetes.relay();
    await using watch = await WgKeepalive.start({
      args: ['function', 'connection-watch', `--nats-url=${nats.server.url}`],
      env: { ...process.env, KUBECONFIG: await kubernetes.kubeconfig({ server }) },
      folder: kubernetes.folder,
    });
    await watch.untilReady();
    const isReady = async () => (await watch.readiness())?.isReady === true;

    relay.blackhole();
    const startMs = performance.now();
    const [noticed, restarted] = await Promise.allSettled([
      lasts(isReady, durationMs, signal),
      kubernetes.api.restart(), // and it is up again before anything is cleaned up
    ]);
    if (noticed.status === 'rejected') throw noticed.reason;
    if (restarted.status === 'rejected') throw restarted.reason;
    const readyForMs = noticed.value;
    say(`not ready after ${(readyForMs / 1_000).toFixed(1)} s`);
    const restMs = Math.max(0, durationMs - (performance.now() - startMs));
    const blindForMs = await lasts(async () => !(await isReady()), restMs, signal);
    const wasReadyAgain = blindForMs < restMs;
    relay.heal();

    const healedMs = performance.now();
    const { metadata } = await store.applyTunnel(connection.metadata, connected('liqo-tunnel', '17ms'));
    const isTold = async () => {
      const [last] = await bus.lastMessages('CHANGES', changeSubject('connections', metadata));
      return last?.headers[MESSAGE_ID_HEADER] === `${metadata.uid}.${metadata.resourceVersion}`;
    };
    await eventually(isTold, 'the edit to be told', 2 * TOLD_LIMIT_MS);
    const toldMs = performance.now() - healedMs;
    say(`told ${(toldMs / 1_000).toFixed(1)} s after the way was open`);
    await watch.untilReady();
    return [
      ...(readyForMs >= durationMs ? ['ready all the time'] : []),
      ...(readyForMs > NOTICED_LIMIT_MS ? [`ready for ${Math.round(readyForMs)} ms while blind`] : []),
      ...(wasReadyAgain ? ['ready again while nothing passed'] : []),
      ...(toldMs > TOLD_LIMIT_MS ? [`it took ${Math.round(toldMs)} ms to tell, 60 s are allowed`] : []),
      ...(watch.isRunning ? [] : ['the process has ended']),
    ];
  },
};

/** How long a condition goes on to hold, at most `limitMs`. */
async function lasts(condition: () => Promise<boolean>, limitMs: number, signal: AbortSignal): Promise<number> {
  const startMs = performance.now();
  while (performance.now() - startMs < limitMs && (await condition())) {
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
  return performance.now() - startMs;
}
