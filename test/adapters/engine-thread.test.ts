import { expect, test } from 'vitest';
import { engineThread } from '../../shared/adapters/engine-thread.ts';
import { engineEntry } from '../../shared/cli/engine-entry.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import type { EngineReport } from '../../shared/ports/ping-engine.ts';
import { eventually } from '../support/eventually.ts';
import { loopbackTunnel } from '../support/loopback.ts';

const PORT = 24_521;
const options = {
  tunnels: [loopbackTunnel(0, PORT)],
  settings: { ...DEFAULT_PING_SETTINGS, intervalMs: 20 },
  sender: '0a1b2c3d',
  batchMs: 10,
};

test('tells what it sees, takes other tunnels, and ends when it is told to', async () => {
  const reports: EngineReport[] = [];
  const engine = engineThread(engineEntry())(options, (report) => reports.push(report));
  await eventually(() => reports.some(({ sightings }) => sightings.length > 0), 'a sighting');
  engine.setTunnels([loopbackTunnel(1, PORT)]);
  await eventually(
    () => reports.some(({ sightings }) => sightings.some(({ interfaceId }) => interfaceId === 'liqo-tunnel1')),
    'a sighting of the other tunnel',
  );
  await engine.stop();
  expect(reports.at(-1)?.snapshot?.tunnels.map(({ interfaceId }) => interfaceId)).toEqual(['liqo-tunnel1']);
});

test('starts and stops twenty times, however quickly, and leaves nothing', { timeout: 30_000 }, async () => {
  for (let i = 0; i < 20; i++) await engineThread(engineEntry())(options, () => {}).stop();
});

test('says so if it dies', async () => {
  const bug = new URL(`data:text/javascript,${encodeURIComponent('throw new Error("a bug")')}`);
  const engine = engineThread(bug)(options, () => {});
  await expect(engine.failed).rejects.toMatchObject({
    message: 'the ping engine died of a bug',
    cause: { message: 'a bug' },
  });
});
