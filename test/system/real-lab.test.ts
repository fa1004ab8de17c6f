import { expect, test } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import { LAB_GATEWAYS } from '../../infra/lab/lab.ts';
import { AGGREGATE_FIELD_MANAGER } from '../../shared/domain/connection.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import { GATEWAY_MODES, interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import { connectionWrites } from '../support/audit-log.ts';
import { eventually } from '../support/eventually.ts';
import { improperWrites } from '../support/improper-writes.ts';
import {
  carryOut,
  entries,
  GRACE_MS,
  labOfSuite,
  metric,
  REAL_LAB_NEEDS,
  reaches,
  scenario,
  seenByGateways,
  transitions,
} from '../support/real-lab.ts';
import { describeReal } from '../support/real-parts.ts';

await describeReal('real lab with two replicas of every function', REAL_LAB_NEEDS, () => {
  const current = labOfSuite(async () => {
    const { tunnels, ping, functions } = await scenario('one-tunnel-cut');
    return { tunnels, ping, functions, replicas: 2 };
  });

  test('four tunnels are Connected, one is cut and restored: the status says so at each step', async () => {
    await carryOut(current.lab, await scenario('one-tunnel-cut'));
  });

  test('C9: nothing of the failure is left after recovery', async () => {
    for (const { status } of await current.lab.connections()) {
      for (const { reason, message } of status?.tunnels ?? []) expect({ reason, message }).toEqual({});
      expect(status?.conditions).toMatchObject([{ type: 'Ready', status: 'True', reason: 'AllTunnelsConnected' }]);
    }
  });

  test('a function that is killed while tunnels fail and recover loses no transition', async () => {
    const { lab } = current;
    await seenByGateways(lab, 'liqo-tunnel1', 1); // what metrics show may be a second old
    const before = await transitions(lab, 'liqo-tunnel1');
    for (const { manifest } of CATALOG) {
      const crash = lab.crash(manifest.name);
      await lab.cut('liqo-tunnel1');
      await seenByGateways(lab, 'liqo-tunnel1', 0);
      await lab.restore('liqo-tunnel1');
      await seenByGateways(lab, 'liqo-tunnel1', 1);
      await crash;
    }
    await reaches(lab, 'Connected', ['Connected', 'Connected', 'Connected', 'Connected']);
    const failuresAndRecoveries = CATALOG.flatMap(() => ['Error', 'Connected']);
    for (const { mode } of LAB_GATEWAYS) {
      await eventually(
        async () => {
          const after = await transitions(lab, 'liqo-tunnel1');
          return after[mode].length === before[mode].length + failuresAndRecoveries.length;
        },
        `all transitions of ${mode}`,
        GRACE_MS,
      ).catch(() => {}); // the comparison says it better
      const after = await transitions(lab, 'liqo-tunnel1');
      expect(after[mode].slice(before[mode].length)).toEqual(failuresAndRecoveries);
    }
  });

  test('C12: four interfaces become two: exactly two entries, also where one of the removed ones was Error', async () => {
    await carryOut(current.lab, await scenario('scale-4-2'));
    await seenByGateways(current.lab, 'liqo-tunnel', 1); // what was Connected stays so until the new gateways know
    await seenByGateways(current.lab, 'liqo-tunnel1', 1);
    await reaches(current.lab, 'Connected', ['Connected', 'Connected']);
  });

  test('C12: no PING goes to a removed tunnel, even if its interface is there again', async () => {
    const { network } = current.lab;
    await network.addTunnel(3);
    const address = { server: '169.254.18.14', client: '169.254.18.13' };
    const count = `table inet probe {
      chain out {
        type filter hook output priority 1
        ip daddr { ${Object.values(address)} } counter
      }
    }`;
    for (const side of GATEWAY_MODES) await network.exec(side, 'nft', ['-f', '-'], count);
    for (const side of GATEWAY_MODES) {
      const before = await metric(current.lab, side, 'wg_keepalive_pings_sent_total', 'liqo-tunnel');
      await eventually(
        async () => (await metric(current.lab, side, 'wg_keepalive_pings_sent_total', 'liqo-tunnel')) >= before + 10,
        'ten more PINGs of another tunnel',
        GRACE_MS,
      );
      expect(await network.exec(side, 'nft', ['list', 'table', 'inet', 'probe'])).toMatch(/counter packets 0 /);
      expect(await metric(current.lab, side, 'wg_keepalive_pings_sent_total', 'liqo-tunnel3')).toBeNaN();
    }
  });

  test('C14: every status write is an apply on /status, by the manager whose part it is, and none is refused', async () => {
    const writes = await connectionWrites(current.lab.api.auditLogFile ?? '');
    const tunnels = Array.from({ length: 4 }, (_, index) => interfaceIdOf(index));
    expect(improperWrites(writes, tunnels)).toEqual([]);
    expect(writes.filter(({ code }) => code === 500)).toEqual([]);
    const statusWrites = writes.filter(({ subresource }) => subresource === 'status');
    const managers = new Set(statusWrites.map(({ fieldManager }) => fieldManager));
    expect([...managers].sort()).toEqual([...tunnels, AGGREGATE_FIELD_MANAGER].sort());
  });

  test('C14: the API server has each entry owned by the manager of its name alone', async () => {
    for (const { metadata } of await current.lab.connections()) {
      const owned = (metadata.managedFields ?? [])
        .filter(({ subresource }) => subresource === 'status')
        .map(({ manager, operation, fieldsV1 }) => {
          const { 'f:tunnels': entries = {}, ...others } = (fieldsV1 as { 'f:status': Record<string, object> })[
            'f:status'
          ];
          return { manager, operation, entries: Object.keys(entries), others: Object.keys(others).sort() };
        });
      const entryOf = (manager: string) => ({
        ...{ manager, operation: 'Apply', entries: [`k:{"interfaceID":"${manager}"}`], others: [] },
      });
      expect(owned).toHaveLength(3);
      expect(owned).toEqual(
        expect.arrayContaining([
          entryOf('liqo-tunnel'),
          entryOf('liqo-tunnel1'),
          {
            manager: AGGREGATE_FIELD_MANAGER,
            operation: 'Apply',
            entries: [],
            others: ['f:conditions', 'f:latency', 'f:value'],
          },
        ]),
      );
    }
  });

  test('stops with nothing left undelivered', async () => {
    expect(await current.stop()).toEqual({ unsent: 0 });
  });
});

await describeReal('real lab with the default settings', REAL_LAB_NEEDS, () => {
  const prohibited = '169.254.18.10/32'; // the client's end of liqo-tunnel2
  const current = labOfSuite(async () => ({
    ...{ tunnels: 3, replicas: 1, ping: DEFAULT_PING_SETTINGS },
    functions: { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 30_000 },
    prepare: async (network) => {
      await network.exec('server', 'ip', ['route', 'add', 'prohibit', prohibited]);
    },
  }));

  test('C7: where every send is refused from the start, the tunnel never was Connected, and the reason says why', async () => {
    const { lab } = current;
    await reaches(lab, 'Error', ['Connected', 'Connected', 'Error']);
    expect((await transitions(lab, 'liqo-tunnel2')).server).toEqual(['Connecting', 'Error']);
    const writes = await connectionWrites(lab.api.auditLogFile ?? '');
    expect(
      writes
        .flatMap(({ status }) => status?.tunnels ?? [])
        .filter(({ interfaceID, latency }) => interfaceID === 'liqo-tunnel2' && latency),
    ).toEqual([]);
    expect(writes.filter(({ status }) => status?.value === 'Connected')).toEqual([]);
    const errors = () => metric(lab, 'server', 'wg_keepalive_send_errors_total', 'liqo-tunnel2', 'EACCES');
    const before = await errors();
    expect(before).toBeGreaterThan(0);
    await eventually(async () => (await errors()) > before, 'more send errors', GRACE_MS);
    const [ofServer] = await entries(lab, 'liqo-tunnel2');
    expect(ofServer).toMatchObject({
      reason: expect.any(String),
      message: expect.stringContaining('EACCES'),
    });
  });

  test('C7: it recovers as soon as sending works', async () => {
    await current.lab.network.exec('server', 'ip', ['route', 'delete', 'prohibit', prohibited]);
    await reaches(current.lab, 'Connected', ['Connected', 'Connected', 'Connected']);
  });

  test('C8: a tunnel whose packets are dropped becomes Error, loses its latency, and the global one goes', async () => {
    await current.lab.cut('liqo-tunnel1');
    await reaches(current.lab, 'Error', ['Connected', 'Error', 'Connected']);
    for (const { lastTransitionTime = '', message = '' } of await entries(current.lab, 'liqo-tunnel1')) {
      const lastPongAt = /^no PONG since (\S+)$/.exec(message)?.[1] ?? expect.fail(message);
      const silentMs = Date.parse(lastTransitionTime) - Date.parse(lastPongAt);
      expect(silentMs).toBeGreaterThanOrEqual(10_000);
      expect(silentMs).toBeLessThan(12_000);
    }
  });

  test('C9: and back: no old reason, and the global latency is the mean of the three', async () => {
    await current.lab.restore('liqo-tunnel1');
    const restoredAtMs = Date.now();
    await reaches(current.lab, 'Connected', ['Connected', 'Connected', 'Connected']);
    for (const { lastTransitionTime = '' } of await entries(current.lab, 'liqo-tunnel1')) {
      expect(Date.parse(lastTransitionTime) - restoredAtMs).toBeLessThan(4_000); // by the gateway's own clock
    }
    for (const { status } of await current.lab.connections()) {
      expect(status?.tunnels?.map(({ reason, message }) => ({ reason, message }))).toEqual([{}, {}, {}]);
    }
  });
});
