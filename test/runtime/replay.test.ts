import { describe, expect, it } from 'vitest';
import type { Connection } from '../../shared/domain/connection.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import { observationSubject } from '../../shared/domain/subjects.ts';
import { FunctionWorld, REF } from '../support/function-world.ts';
import { recordedBy, replayOf } from '../support/replay-of.ts';
import { START_UNIX_MS, syntheticObservations } from '../support/synthetic-observations.ts';

/** Two tunnels, an outage, a scale-down and a silent gateway, on the functions as they run in production. */
async function eventfulWorld(): Promise<FunctionWorld> {
  const world = new FunctionWorld();
  world.startAll();
  const epoch = await world.announce(['liqo-tunnel', 'liqo-tunnel1', 'liqo-tunnel2']);
  for (let sequence = 1; sequence <= 40; sequence++) {
    await world.observe({ gatewayEpoch: epoch, sequence, kind: 'pong', rttNs: sequence * 1_000_000 });
    const isLost = sequence > 12 && sequence <= 20;
    const kind = !isLost ? 'pong' : sequence < 17 ? 'miss' : 'down';
    const reason = kind === 'down' ? { reason: 'Lost', message: 'no PONG' } : {};
    await world.observe({ gatewayEpoch: epoch, sequence, kind, interfaceId: 'liqo-tunnel1', ...reason });
    await world.clock.advance(2_000);
  }
  await world.announce(['liqo-tunnel', 'liqo-tunnel1']);
  await world.clock.advance(60_000);
  return world;
}

function withData(message: RecordedMessage, data: object): RecordedMessage {
  const { event } = message;
  return event === undefined
    ? message
    : { ...message, event: { ...event, data: { ...(event.data as object), ...data } } };
}

describe('a replay', () => {
  it('comes to the Connection that the live functions made, by the same writes', async () => {
    const world = await eventfulWorld();
    const { steps, summary } = await replayOf(await recordedBy(world));

    const live = world.connection() as Connection;
    expect(summary.connections).toEqual([{ ...REF, uid: live.metadata.uid, status: live.status }]);
    expect(live.status?.value).toBe('Error');
    expect(live.status?.tunnels?.map(({ reason }) => reason)).toEqual(['GatewaySilent', 'GatewaySilent']);

    const written = world.decisions.filter(
      ({ function: name, outcome }) => name === 'tunnel-status' && outcome === 'written',
    );
    const replayed = steps.filter(({ function: name, kind }) => name === 'tunnel-status' && kind === 'written');
    expect(replayed.map(({ eventId, before, after }) => ({ eventId, before, after }))).toEqual(
      written.map(({ eventId, before, after }) => ({ eventId, before, after })),
    );
    expect(summary.outcomes.throttled).toBe(world.count('tunnel-status', 'throttled'));
    expect(summary.assumed).toEqual([]);
    expect(summary.missing).toBe(0);
  });

  it('is the same to the byte however often it runs, in whatever batches', async () => {
    const messages = [...syntheticObservations({ connections: 2, tunnels: 3, intervalMs: 2_000, rounds: 300 })];
    const first = await replayOf(messages);
    const second = await replayOf(
      syntheticObservations({ connections: 2, tunnels: 3, intervalMs: 2_000, rounds: 300 }),
    );
    expect(JSON.stringify(second)).toBe(JSON.stringify(first));
    expect(first.steps.length).toBeGreaterThan(400);
  });

  it('assumes the listing of tunnels in a window that starts after it, and says so', async () => {
    const options = { connections: 1, tunnels: 2, intervalMs: 2_000, rounds: 50, listed: false };
    const { steps, summary } = await replayOf(syntheticObservations(options));
    expect(summary.assumed).toEqual(['liqo-tenant-0/gw-0 liqo-tunnel', 'liqo-tenant-0/gw-0 liqo-tunnel1']);
    expect(steps.filter(({ kind }) => kind === 'assumed')).toHaveLength(2);
    expect(summary.connections[0]).toMatchObject({ uid: 'assumed', status: { value: 'Connected' } });
  });

  it('takes what came before the first listing of a stream for orphans, as it was live', async () => {
    const world = new FunctionWorld();
    world.start('tunnel-status');
    for (let sequence = 1; sequence <= 3; sequence++) {
      await world.observe({ gatewayEpoch: 1, sequence, kind: 'pong', rttNs: 1_000_000 });
      await world.clock.advance(2_000);
    }
    for (const name of ['connection-watch', 'connection-aggregate', 'connection-ensure']) world.start(name);
    const gatewayEpoch = await world.announce(['liqo-tunnel']);
    for (let sequence = 1; sequence <= 3; sequence++) {
      await world.observe({ gatewayEpoch, sequence, kind: 'pong', rttNs: sequence * 1_000_000 });
      await world.clock.advance(2_000);
    }
    const messages = await recordedBy(world);

    const { steps, summary } = await replayOf(messages, { fromStreamStart: true });
    expect(world.count('tunnel-status', 'orphan')).toBe(3);
    expect(summary.outcomes.orphan).toBe(3);
    expect(summary).toMatchObject({ assumed: [], missing: 0 });
    expect(summary.connections[0]?.status).toEqual(world.connection()?.status);
    expect(steps.find(({ kind }) => kind === 'listing')?.skipped).toMatchObject({ orphan: 3 });

    // The same events, of a stream that had others before: somebody had listed the tunnel.
    const later = await replayOf(messages);
    expect(later.summary.outcomes.orphan).toBe(0);
    expect(later.summary.assumed).toEqual(['liqo-tenant-rome/gw-rome liqo-tunnel']);
  });

  it('assumes the listing in a stream that was made anew while the gateway went on', async () => {
    const all = [...syntheticObservations({ connections: 1, tunnels: 1, intervalMs: 2_000, rounds: 9, listed: false })];
    const { summary } = await replayOf(all.slice(4), { fromStreamStart: true });
    expect(summary.assumed).toHaveLength(1);
    expect(summary.outcomes.orphan).toBe(0);
    const coalesced = all
      .slice(4)
      .map((message, index) => (index === 0 ? withData(message, { coalesced: 4 }) : message));
    expect((await replayOf(coalesced, { fromStreamStart: true })).summary.assumed).toEqual([]);
  });

  it('keeps what it assumed when a later listing tells the uid', async () => {
    const options = { connections: 1, tunnels: 2, intervalMs: 2_000, rounds: 10, listed: false };
    const messages = [...syntheticObservations(options)];
    const at = messages[9] as RecordedMessage;
    const data = {
      ...{ namespace: 'liqo-tenant-0', connection: 'gw-0', interfaceId: 'liqo-tunnel', kind: 'listed' },
      ...{ connectionUid: 'the-uid', gatewayEpoch: 1_767_225_600_000, observedAt: '2026-01-01T00:00:10.000Z' },
    };
    const listed = { ...at, event: { id: 'listed', source: '/x', type: OBSERVATION_TYPE, data } } as RecordedMessage;
    messages.splice(10, 0, { ...listed, sequence: at.sequence });
    const { summary } = await replayOf(messages);
    expect(summary.connections).toHaveLength(1);
    expect(summary.connections[0]).toMatchObject({ uid: 'the-uid', status: { value: 'Connected' } });
    expect(summary.connections[0]?.status.tunnels).toHaveLength(2);
    expect(summary.outcomes.orphan).toBe(0);
  });

  it('reports observations that are missing, and none for coalesced ones', async () => {
    const all = [...syntheticObservations({ connections: 1, tunnels: 1, intervalMs: 2_000, rounds: 20 })];
    const cut = all.filter(({ sequence }) => sequence < 6 || sequence > 8);
    const { steps, summary } = await replayOf(cut);
    expect(summary.missing).toBe(3);
    expect(steps.find(({ kind }) => kind === 'missing')).toMatchObject({
      reason: 'ObservationsMissing',
      interfaceId: 'liqo-tunnel',
    });

    const coalesced = cut.map((message) => (message.sequence === 9 ? withData(message, { coalesced: 3 }) : message));
    expect((await replayOf(coalesced)).summary.missing).toBe(0);
  });

  it('reports what no function takes, and goes on', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const epoch = await world.announce(['liqo-tunnel']);
    await world.observe({ gatewayEpoch: epoch, sequence: 1, kind: 'pong' });
    const subject = observationSubject(REF, 'liqo-tunnel');
    await world.publish(subject, 'wg-keepalive.observation.v2', { anything: true });
    await world.publish(subject, OBSERVATION_TYPE, { kind: 'pong', rttNs: -1 });
    await world.publish(observationSubject(REF, 'liqo-tunnel7'), OBSERVATION_TYPE, {
      ...{ namespace: REF.namespace, connection: REF.name, interfaceId: 'liqo-tunnel', kind: 'unlisted' },
      ...{ gatewayEpoch: epoch, observedAt: world.now() },
    });
    await world.observe({ gatewayEpoch: epoch, sequence: 2, kind: 'down', reason: 'Lost' });
    await world.clock.settle();

    const { steps, summary } = await replayOf(await recordedBy(world));
    const reasons = steps.filter(({ kind }) => kind === 'invalid').map(({ reason }) => reason);
    expect(reasons).toEqual(['UnknownType', 'SchemaViolation', 'ForeignSubject']);
    expect(summary.outcomes.invalid).toBe(3);
    expect(summary.connections[0]?.status).toEqual(world.connection()?.status);
    expect(summary.connections[0]?.status.value).toBe('Error');
  });

  it('does not let a server clock that was set back disturb the order or the durations', async () => {
    const forward = [...syntheticObservations({ connections: 1, tunnels: 2, intervalMs: 2_000, rounds: 60 })];
    const stepped = forward.map((message) =>
      message.sequence > 60 ? { ...message, storedAtUnixMs: message.storedAtUnixMs - 3_600_000 } : message,
    );
    const [a, b] = [await replayOf(forward), await replayOf(stepped)];
    expect(b.summary.connections).toEqual(a.summary.connections);
    expect(b.summary.outcomes).toEqual(a.summary.outcomes);
    expect(stepped.at(-1)?.storedAtUnixMs).toBeLessThan(START_UNIX_MS);
  });
});
