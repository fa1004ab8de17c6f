import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { describeReal } from '../support/real-parts.ts';
import { type WriteBudget, writesAtRest } from '../support/writes-at-rest.ts';

/** C15 asks for 10 minutes with an update interval of 10 s: a tenth of both allows as many writes. */
const SCALED: WriteBudget = { tunnels: 8, durationMs: 60_000, pingIntervalMs: 200, updateIntervalMs: 1_000 };

await describeReal('writes of two replicas at rest', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  it('stay within the budget, and end with the events (C15)', { timeout: 300_000 }, async () => {
    await using parts = await FunctionsOnRealParts.start();
    const { tunnelWrites, aggregateWrites, allowed, ref } = await writesAtRest(parts, SCALED);
    expect(tunnelWrites).toBeLessThanOrEqual(allowed);
    expect(aggregateWrites).toBeLessThanOrEqual(tunnelWrites);
    expect(tunnelWrites).toBeGreaterThan(2 * SCALED.tunnels); // nothing was stuck; a machine under load says less

    const version = async () => (await parts.connection(ref))?.metadata.resourceVersion;
    const before = await version();
    await sleep(10_000);
    expect(await version()).toBe(before);
  });
});
