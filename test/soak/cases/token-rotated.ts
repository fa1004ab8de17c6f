import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/eventually.ts';
import { FunctionsOnRealParts } from '../../support/functions-on-real-parts.ts';
import { WgKeepalive } from '../../support/wg-keepalive.ts';
import type { LongCase } from '../long-case.ts';

const WRITTEN_LIMIT_MS = 60_000;
const ROTATIONS = 4;
const PING_EVERY_MS = 250;

export const tokenRotated: LongCase = {
  name: 'C18',
  title: `the token file gets another token and the old one is revoked, ${ROTATIONS} times: the latest state is written within 60 s`,
  needs: ['nats-server', 'etcd', 'kube-apiserver'],
  durationMs: 120_000,
  async run({ durationMs, say, signal }) {
    await using parts = await FunctionsOnRealParts.start();
    const { kubernetes, nats } = parts;
    const namespace = await kubernetes.namespace();
    const tokenFile = join(kubernetes.folder, 'token');
    const account = (rotation: number) => `account-${rotation}`;
    await writeFile(tokenFile, await kubernetes.tokenOfNewAccount(namespace, account(0)));
    const user = { tokenFile };
    await using functions = await WgKeepalive.start({
      args: [
        'function',
        'all',
        `--nats-url=${nats.url}`,
        '--gateway-silent-after=30m',
        '--ping-update-status-interval=0s',
      ],
      env: { ...process.env, KUBECONFIG: await kubernetes.kubeconfig({ user }) },
      folder: kubernetes.folder,
    });
    await functions.untilReady();
    const gateway = await parts.gateway(2);
    gateway.startPinging(PING_EVERY_MS);
    const faults: string[] = [];
    for (let rotation = 1; rotation <= ROTATIONS; rotation++) {
      await writeFile(tokenFile, await kubernetes.tokenOfNewAccount(namespace, account(rotation)));
      const old = `/api/v1/namespaces/${namespace}/serviceaccounts/${account(rotation - 1)}`;
      await kubernetes.admin.call({ method: 'DELETE', path: old });
      const startMs = performance.now();
      const user = `system:serviceaccount:${namespace}:${account(rotation)}`;
      const hasWritten = async () =>
        (await parts.writes(gateway.ref)).some((write) => write.user === user && write.code === 200);
      await eventually(hasWritten, `a write by ${user}`, 2 * WRITTEN_LIMIT_MS);
      const tookMs = performance.now() - startMs;
      say(`rotation ${rotation}: written by the new token after ${(tookMs / 1_000).toFixed(1)} s`);
      if (tookMs > WRITTEN_LIMIT_MS)
        faults.push(`rotation ${rotation}: it took ${Math.round(tookMs)} ms, 60 s are allowed`);
      // The API server trusts a token that it knows for ten seconds more; the next rotation is one from a token that it does not.
      await sleep(Math.max(0, durationMs / ROTATIONS - tookMs), undefined, { signal });
    }
    await gateway.stopPinging();
    // A refresh may be held back to spare the API server, a change of value never is.
    for (const interfaceId of gateway.interfaces) await gateway.down(interfaceId);
    await parts.untilIdle();
    const entries = (await parts.connection(gateway.ref))?.status?.tunnels ?? [];
    for (const interfaceId of gateway.interfaces) {
      const value = entries.find(({ interfaceID }) => interfaceID === interfaceId)?.value;
      if (value !== 'Error') faults.push(`${interfaceId} is ${value}, its last observation said Error`);
    }
    const codes = (await parts.writes(gateway.ref)).map(({ code }) => code);
    say(`${codes.length} writes, ${codes.filter((code) => code >= 400 && code !== 409).length} of them refused`);
    return functions.isRunning ? faults : [...faults, 'the process has ended'];
  },
};
