import { afterAll, beforeAll, expect, it } from 'vitest';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { DeadLetter } from '../../shared/domain/dead-letter.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import { observationSubject } from '../../shared/domain/subjects.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import { eventually } from '../support/eventually.ts';
import { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { describeReal } from '../support/real-parts.ts';
import type { WgKeepalive } from '../support/wg-keepalive.ts';

const TEN_SECONDS_MS = 10_000;

await describeReal('functions, two replicas on real parts', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  let parts: FunctionsOnRealParts;
  let replicas: WgKeepalive[];

  beforeAll(async () => {
    parts = await FunctionsOnRealParts.start();
    replicas = [await parts.startFunctions(), await parts.startFunctions()];
    for (const replica of replicas) await replica.untilReady();
  });
  afterAll(() => parts[Symbol.asyncDispose]());

  const total = async (name: string, labels: Record<string, string>) => {
    const counts = await Promise.all(replicas.map((replica) => replica.metric(name, labels)));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  const outcomes = (outcome: string) => total('wg_keepalive_events_total', { function: 'tunnel-status', outcome });

  it('keeps Connected where an older Error comes late (C11)', async () => {
    const gateway = await parts.gateway();
    const first = gateway.message('liqo-tunnel', { kind: 'down', value: 'Error', reason: 'NoPong' });
    const second = gateway.message('liqo-tunnel', { kind: 'pong', value: 'Connected', rttNs: 2_000_000 });
    const stale = await outcomes('stale');
    await parts.bus.publish(second);
    await parts.bus.publish(first);
    await eventually(async () => (await outcomes('stale')) === stale + 1, 'the older event to be judged');
    expect(await parts.tunnel(gateway.ref)).toMatchObject({ value: 'Connected', latency: { value: '2ms' } });
    expect((await parts.connection(gateway.ref))?.status?.value).toBe('Connected');
  });

  it('takes an entry away that a foreign manager co-owns, once, and lets the rest be (C13)', async () => {
    const gateway = await parts.gateway(3);
    for (const id of gateway.interfaces) await gateway.pong(1, id);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Connected', 'Connected');
    await putOtherLatency(parts, gateway.ref.namespace, 'liqo-tunnel2');
    expect((await parts.tunnel(gateway.ref, 'liqo-tunnel2'))?.latency?.value).toBe('99ms');

    const before = (await parts.writes(gateway.ref)).length;
    await gateway.announce(gateway.interfaces.slice(0, 2));
    const listed = async () =>
      (await parts.connection(gateway.ref))?.status?.tunnels?.map(({ interfaceID }) => interfaceID).join();
    await eventually(async () => (await listed()) === 'liqo-tunnel,liqo-tunnel1', 'two entries', TEN_SECONDS_MS);
    await parts.untilIdle();
    const attempts = async () =>
      (await parts.writes(gateway.ref))
        .slice(before)
        .filter(({ fieldManager }) => fieldManager === 'liqo-tunnel2' || fieldManager === 'connection-ensure').length;
    const needed = await attempts();
    expect(needed).toBeGreaterThanOrEqual(1);
    expect(needed).toBeLessThanOrEqual(8); // two replicas may meet
    await gateway.pong(1, 'liqo-tunnel2'); // a late one brings nothing back
    await parts.untilIdle();
    expect(await listed()).toBe('liqo-tunnel,liqo-tunnel1');
    expect(await attempts()).toBe(needed);
  });

  it('keeps what is no measurement as a dead letter, counts it once, and adds it to no sum (C31)', async () => {
    const gateway = await parts.gateway();
    await gateway.pong(3);
    await eventually(async () => (await parts.tunnel(gateway.ref))?.value === 'Connected', 'Connected');
    const invalid = await outcomes('invalid');
    const sum = await total('wg_keepalive_event_age_seconds_sum', { function: 'tunnel-status' });

    const wrong = ['-120', 'NaN', '"abc"', '1e18'];
    for (const [index, rttNs] of wrong.entries()) {
      const { subject, headers, data } = encodeCloudEvent(observationSubject(gateway.ref, 'liqo-tunnel'), {
        ...{ id: `wrong-${index}`, source: '/test', type: OBSERVATION_TYPE },
        data: { ...gateway.last.get('liqo-tunnel'), sequence: 10 + index, rttNs: 0.5 },
      });
      const text = new TextDecoder().decode(data).replace('0.5', rttNs);
      await parts.bus.publish({ subject, headers, data: new TextEncoder().encode(text) });
    }
    await eventually(async () => (await outcomes('invalid')) === invalid + wrong.length, 'four dead letters');
    await parts.untilIdle();
    expect(await outcomes('invalid')).toBe(invalid + wrong.length);
    expect(await total('wg_keepalive_event_age_seconds_sum', { function: 'tunnel-status' })).toBe(sum);
    expect(await parts.tunnel(gateway.ref)).toMatchObject({ value: 'Connected', latency: { value: '3ms' } });
    const [letter] = await parts.bus.lastMessages('DEAD_LETTERS', 'dead.tunnel-status');
    expect(JSON.parse(new TextDecoder().decode(letter?.data)) as DeadLetter).toMatchObject({
      ...{ function: 'tunnel-status', reason: 'SchemaViolation', stream: 'OBSERVATIONS' },
      message: expect.stringContaining('/rttNs'),
    });
  });

  it('goes on where every consumer was deleted, and shows the last event of every tunnel (C20)', async () => {
    const gateway = await parts.gateway(4);
    for (const id of gateway.interfaces) await gateway.pong(1, id);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Connected', 'Connected');
    const before = await parts.consumerNames();
    const manager = await parts.manager();
    for (const name of before) {
      const [stream = '', durable = ''] = name.split('/');
      await manager.consumers.delete(stream, durable);
    }
    for (const id of gateway.interfaces.slice(1)) await gateway.down(id);
    await gateway.pong(5);
    const values = async () => (await parts.connection(gateway.ref))?.status?.tunnels?.map(({ value }) => value).join();
    await eventually(async () => (await values()) === 'Connected,Error,Error,Error', 'the last values', 30_000);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Error', 'Error', 30_000);
    await eventually(async () => (await parts.consumerNames()).join() === before.join(), 'the consumers', 30_000);
  });

  it('hands the events of a replica that is killed to the other one', async () => {
    const gateway = await parts.gateway(2);
    for (const id of gateway.interfaces) await gateway.pong(1, id);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Connected', 'Connected');
    const [victim, survivor] = replicas as [WgKeepalive, WgKeepalive];
    victim.signal('SIGKILL');
    await victim.exited;
    for (const id of gateway.interfaces) await gateway.down(id);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Error', 'Error');
    replicas = [survivor, await (await parts.startFunctions()).untilReady()];
  });

  it('hands the events of a replica that stands still to the other one, and takes nothing back when it wakes', async () => {
    const gateways = await Promise.all(Array.from({ length: 8 }, () => parts.gateway()));
    const shown = async () =>
      Promise.all(gateways.map(async ({ ref }) => (await parts.connection(ref))?.status?.value));
    const untilAll = (value: string) =>
      eventually(async () => (await shown()).every((one) => one === value), `all of them ${value}`, 60_000);
    for (const gateway of gateways) await gateway.pong(1);
    await untilAll('Connected');
    const [frozen] = replicas as [WgKeepalive];
    frozen.signal('SIGSTOP');
    try {
      for (const gateway of gateways) await gateway.down();
      await untilAll('Error');
      for (const gateway of gateways) await gateway.pong(2);
      await untilAll('Connected');
    } finally {
      frozen.signal('SIGCONT');
    }
    await frozen.untilReady();
    await parts.untilIdle();
    expect(new Set(await shown())).toEqual(new Set(['Connected']));
  });

  it('ends with exit code 0 on SIGTERM, with nothing left in work', async () => {
    const gateway = await parts.gateway(4);
    gateway.startPinging(5);
    await eventually(async () => (await parts.connection(gateway.ref))?.status?.value === 'Connected', 'Connected');
    const [leaving, staying] = replicas as [WgKeepalive, WgKeepalive];
    expect(await leaving.stop()).toEqual({ code: 0, signal: null });
    // Nothing waits for an ack wait to end: what was in its hands was settled or handed back.
    await gateway.stopPinging();
    await parts.untilIdle();
    const manager = await parts.manager();
    const redelivered = await Promise.all(
      Array.from({ length: 16 }, (_, partition) =>
        manager.consumers.info('OBSERVATIONS', `tunnel-status-${partition}`),
      ),
    );
    expect(redelivered.map(({ num_redelivered }) => num_redelivered)).toEqual(redelivered.map(() => 0));
    replicas = [staying];
  });
});

/** An ordinary update of one entry, as a controller or `kubectl edit` does. */
const MAX_EDITS = 5;

async function putOtherLatency(parts: FunctionsOnRealParts, namespace: string, interfaceId: string): Promise<void> {
  const path = `/apis/networking.liqo.io/v1beta1/namespaces/${namespace}/connections/gw-rome`;
  const { admin } = parts.kubernetes;
  type Object = { status: { tunnels: { interfaceID: string; latency?: object }[] } };
  for (let attempt = 1; ; attempt++) {
    const { body } = await admin.call<Object>({ method: 'GET', path });
    for (const entry of body.status.tunnels) {
      if (entry.interfaceID === interfaceId) entry.latency = { value: '99ms', timestamp: new Date().toISOString() };
    }
    try {
      await admin.call({ method: 'PUT', path: `${path}/status`, query: { fieldManager: 'kubectl-edit' }, body });
      return;
    } catch (error) {
      // The aggregate may have been written in between: whoever edits by hand reads again, too.
      if (!(error instanceof StoreError) || error.code !== 'conflict' || attempt === MAX_EDITS) throw error;
    }
  }
}
