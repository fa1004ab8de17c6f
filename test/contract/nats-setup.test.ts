import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { launchNats } from '../../infra/servers/launch-nats.ts';
import { NatsLink } from '../../shared/adapters/nats-link.ts';
import { raiseEpoch, type SetupChange, setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { gatewaySubject, observationSubject } from '../../shared/domain/subjects.ts';
import { partitionConsumers, STREAMS, type StreamName, sharedConsumer } from '../../shared/domain/topology.ts';
import { type NatsHarness, SETUP_FOR_TESTS, startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const CONSUMERS = [
  ...partitionConsumers('tunnel-status'),
  sharedConsumer('connection-aggregate', 'CHANGES', ['changes.connections.*.*']),
];
const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;

await describeReal('NATS setup', ['nats-server'], () => {
  describe('setupBus', () => {
    let harness: NatsHarness;
    let connection: NatsConnection;
    let manager: JetStreamManager;

    beforeAll(async () => {
      harness = await startNatsHarness(CONSUMERS);
      connection = (await harness.connect()).link.connection;
      manager = await jetstreamManager(connection);
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    /** A connection to a server of its own; both end with the test. */
    async function serverWith(config: string): Promise<NatsConnection> {
      const cleanUp = new AsyncDisposableStack();
      onTestFinished(() => cleanUp.disposeAsync());
      const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-'));
      cleanUp.defer(() => rm(folder, { recursive: true }));
      const configFile = join(folder, 'nats.conf');
      await writeFile(configFile, `${config}\n`);
      const server = cleanUp.use(await launchNats({ configFile }));
      const link = NatsLink.open({ servers: [server.url], name: 'test' }, systemClock, silentLogger);
      cleanUp.defer(() => link.close());
      return link.whenUp();
    }

    const changed = (changes: readonly SetupChange[]) => changes.filter(({ change }) => change !== 'unchanged');

    test('makes every stream as the topology says', async () => {
      for (const spec of STREAMS) {
        const { config } = await manager.streams.info(spec.name);
        expect(config).toMatchObject({
          subjects: spec.subjects,
          discard: 'old',
          storage: 'file',
          num_replicas: 1,
          allow_direct: true,
          compression: spec.compressed ? 's2' : 'none',
          max_age: (spec.maxAgeMs ?? 0) * 1e6,
          max_msgs_per_subject: spec.maxMessagesPerSubject ?? -1,
        });
      }
      const { config } = await manager.streams.info('OBSERVATIONS');
      expect(config.subject_transform?.dest).toBe(
        'observations.{{partition(16,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}',
      );
      expect(config.duplicate_window).toBe(5 * 60 * 1e9);
      expect((await manager.streams.info('TIMERS')).config.allow_msg_schedules).toBe(true);
      expect((await manager.streams.info('GATEWAYS')).config.first_seq).toBeGreaterThan(Date.UTC(2020, 0, 1));
    });

    test('changes nothing on a second run', async () => {
      const changes = await setupBus(connection, SETUP_FOR_TESTS(CONSUMERS));
      expect(changed(changes)).toEqual([]);
      expect(changes.length).toBe(STREAMS.length + CONSUMERS.length + 1);
    });

    test('updates what differs, names the fields, and keeps the messages', async () => {
      const [first, ...rest] = CONSUMERS as [(typeof CONSUMERS)[number], ...typeof CONSUMERS];
      const before = (await manager.streams.info('DECISIONS')).state;
      const options = {
        ...SETUP_FOR_TESTS([{ ...first, ackWaitMs: 7_000 }, ...rest]),
        maxBytes: { ...SETUP_FOR_TESTS().maxBytes, DECISIONS: 48 * MIB, 'tunnel-state': 32 * MIB },
      };
      expect(changed(await setupBus(connection, options))).toEqual([
        { kind: 'stream', name: 'DECISIONS', change: 'updated', fields: ['max_bytes'] },
        { kind: 'consumer', name: 'OBSERVATIONS/tunnel-status-0', change: 'updated', fields: ['ack_wait'] },
        { kind: 'bucket', name: 'tunnel-state', change: 'updated', fields: ['max_bytes'] },
      ]);
      expect((await manager.streams.info('DECISIONS')).state.last_seq).toBe(before.last_seq);
      expect((await manager.streams.info('DECISIONS')).config.max_bytes).toBe(48 * MIB);
      await setupBus(connection, SETUP_FOR_TESTS(CONSUMERS));
    });

    test('moves a consumer between one filter and several', async () => {
      const spec = sharedConsumer('filters', 'CHANGES', ['changes.connections.*.*']);
      await setupBus(connection, SETUP_FOR_TESTS([...CONSUMERS, spec]));
      const two = { ...spec, filterSubjects: ['changes.connections.*.*', 'changes.publickeies.*.*'] };
      expect(changed(await setupBus(connection, SETUP_FOR_TESTS([...CONSUMERS, two])))).toHaveLength(1);
      expect((await manager.consumers.info('CHANGES', 'filters')).config.filter_subjects).toEqual(two.filterSubjects);
      expect(changed(await setupBus(connection, SETUP_FOR_TESTS([...CONSUMERS, two])))).toEqual([]);
      expect(changed(await setupBus(connection, SETUP_FOR_TESTS([...CONSUMERS, spec])))).toHaveLength(1);
      expect((await manager.consumers.info('CHANGES', 'filters')).config.filter_subject).toBe(
        'changes.connections.*.*',
      );
    });

    test('makes what is missing and leaves the rest', async () => {
      await manager.streams.delete('CHANGES');
      const changes = changed(await setupBus(connection, SETUP_FOR_TESTS(CONSUMERS)));
      expect(changes.map(({ kind, name, change }) => [kind, name, change])).toEqual([
        ['stream', 'CHANGES', 'created'],
        ['consumer', 'CHANGES/connection-aggregate', 'created'],
      ]);
    });

    test('stops at what cannot be updated, with stream, field and both values', async () => {
      await manager.streams.delete('DEAD_LETTERS');
      await manager.streams.add({ name: 'DEAD_LETTERS', subjects: ['dead.*'], storage: 'memory', max_bytes: MIB });
      await expect(setupBus(connection, SETUP_FOR_TESTS())).rejects.toMatchObject({
        name: 'BusSetupError',
        code: 'SETUP_CONFLICT',
        message: expect.stringMatching(/stream DEAD_LETTERS .*storage is "memory", want "file".*delete it by hand/),
      });
      await manager.streams.delete('DEAD_LETTERS');
      await setupBus(connection, SETUP_FOR_TESTS());
    });

    test('refuses an account that another cluster has set up, and marks one that none has', async () => {
      const of = (cluster: string) => ({ ...SETUP_FOR_TESTS(), metadata: { 'wg-keepalive.cluster': cluster } });
      expect(changed(await setupBus(connection, of('uid-1')))[0]?.fields).toEqual(['metadata']);
      expect(changed(await setupBus(connection, of('uid-1')))).toEqual([]);
      await expect(setupBus(connection, of('uid-2'))).rejects.toThrow(
        'metadata wg-keepalive.cluster is uid-1, want uid-2',
      );
    });

    describe('with bounds of its own for the history', () => {
      const bounds = (maxBytes: number, maxAgeMs: number) => ({
        ...SETUP_FOR_TESTS(CONSUMERS),
        maxBytes: { ...SETUP_FOR_TESTS().maxBytes, OBSERVATIONS: maxBytes },
        maxAgeMs: { OBSERVATIONS: maxAgeMs, DECISIONS: maxAgeMs },
      });
      const stream = (name: StreamName) => manager.streams.info(name);

      test('keeps the newest within the bytes, drops the rest, and goes back to the default without', async () => {
        await setupBus(connection, SETUP_FOR_TESTS(CONSUMERS));
        const changes = changed(await setupBus(connection, bounds(MIB, 72 * HOUR_MS)));
        expect(changes.map(({ name, fields }) => [name, fields])).toEqual([
          ['OBSERVATIONS', ['max_bytes', 'max_age']],
          ['DECISIONS', ['max_age']],
        ]);
        expect(changed(await setupBus(connection, bounds(MIB, 72 * HOUR_MS)))).toEqual([]);

        const bus = await harness.connect();
        const { state: before } = await stream('OBSERVATIONS');
        const padding = 'x'.repeat(16 * 1024);
        for (let n = 1; n <= 200; n++) {
          const subject = observationSubject({ namespace: 'ns', name: 'gw' }, 'liqo-tunnel');
          await bus.publish(encodeCloudEvent(subject, { id: `${n}`, source: '/test', type: 'test', data: padding }));
        }
        const { config, state } = await stream('OBSERVATIONS');
        expect(state.last_seq).toBe(before.last_seq + 200);
        expect(state.bytes).toBeLessThanOrEqual(MIB);
        expect(state.bytes).toBeGreaterThan(0.9 * MIB);
        expect(config.max_age).toBe(72 * HOUR_MS * 1e6);
        expect((await stream('DECISIONS')).config.max_age).toBe(72 * HOUR_MS * 1e6);
        expect((await stream('CHANGES')).config.max_age).toBe(HOUR_MS * 1e6);

        await setupBus(connection, bounds(2 * MIB, 72 * HOUR_MS));
        expect((await stream('OBSERVATIONS')).state).toMatchObject({ bytes: state.bytes, last_seq: state.last_seq });
        await setupBus(connection, SETUP_FOR_TESTS(CONSUMERS));
        expect((await stream('OBSERVATIONS')).config).toMatchObject({
          max_bytes: 256 * MIB,
          max_age: 24 * HOUR_MS * 1e6,
        });
      });

      test.each(['made', 'widened'])('says that there is no room for them where the stream is %s', async (how) => {
        const small = await serverWith(`jetstream { max_file_store: ${1024 * MIB} }`);
        if (how === 'widened') await setupBus(small, SETUP_FOR_TESTS());
        await expect(setupBus(small, bounds(240 * 1024 * MIB, 24 * HOUR_MS))).rejects.toMatchObject({
          code: 'SETUP_CONFLICT',
          message: expect.stringMatching(
            /^stream OBSERVATIONS: max_bytes 257698037760: insufficient storage.*: raise max_file_store of nats-server/,
          ),
        });
      });
    });

    test('refuses a server that takes no message as large as a dead letter', async () => {
      const narrow = await serverWith('jetstream {}\nmax_payload: 512KB');
      await expect(setupBus(narrow, SETUP_FOR_TESTS())).rejects.toMatchObject({
        code: 'SETUP_CONFLICT',
        message: expect.stringMatching(/^max_payload of nats-server is 524288 bytes: .*: raise max_payload and run/),
      });
    });

    test('raises the next epoch over any that was given out', async () => {
      const bus = await harness.connect();
      const subject = gatewaySubject({ namespace: 'ns', name: 'gw' });
      const announce = (id: string) =>
        bus.publish(encodeCloudEvent(subject, { id, source: '/test', type: 'test', data: {} }));
      const { sequence } = await announce('one');
      await raiseEpoch(connection, sequence + 1_000_000);
      expect((await announce('two')).sequence).toBe(sequence + 1_000_000);
    });
  });
});
