import { setTimeout as sleep } from 'node:timers/promises';
import { CATALOG } from '../../../functions/catalog.ts';
import { DEFAULT_PING_SETTINGS } from '../../../shared/domain/ping-settings.ts';
import { interfaceIdOf } from '../../../shared/domain/tunnel-interface.ts';
import { connectionWrites } from '../../support/audit-log.ts';
import { improperWrites } from '../../support/improper-writes.ts';
import { startConnectedLab } from '../connected-lab.ts';
import { LAB_NEEDS, type LongCase } from '../long-case.ts';

const TUNNELS = 4;
const PING = { ...DEFAULT_PING_SETTINGS, intervalMs: 500 };
const FUNCTIONS = { updateStatusIntervalMs: 2_000, gatewaySilentAfterMs: 30_000 };

/** Each round fails a tunnel, kills a replica of each function, takes tunnels away and brings them back. */
export const writesAudited: LongCase = {
  name: 'C14',
  title:
    'the audit log of 2 minutes: each status write is an apply on /status by the manager of its part, none is refused',
  needs: LAB_NEEDS,
  durationMs: 120_000,
  async run({ durationMs, say, signal }) {
    await using lab = await startConnectedLab({ tunnels: TUNNELS, ping: PING, functions: FUNCTIONS });
    const endMs = performance.now() + durationMs;
    while (performance.now() < endMs) {
      await lab.cut('liqo-tunnel1');
      for (const { manifest } of CATALOG) await lab.crash(manifest.name);
      await sleep(5_000, undefined, { signal });
      await lab.restore('liqo-tunnel1');
      await lab.scale(TUNNELS / 2);
      await sleep(5_000, undefined, { signal });
      await lab.scale(TUNNELS);
      await sleep(5_000, undefined, { signal });
    }
    const writes = await connectionWrites(lab.api.auditLogFile ?? '');
    const interfaceIds = Array.from({ length: TUNNELS }, (_, index) => interfaceIdOf(index));
    const managers = new Set(
      writes.filter(({ subresource }) => subresource === 'status').map((one) => one.fieldManager),
    );
    say(`${writes.length} writes, of the status by ${[...managers].sort().join(', ')}`);
    return [
      ...(managers.size > TUNNELS ? [] : ['somebody wrote nothing: the case shows nothing']),
      ...improperWrites(writes, interfaceIds),
    ];
  },
};
