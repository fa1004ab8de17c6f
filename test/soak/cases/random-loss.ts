import { setTimeout as sleep } from 'node:timers/promises';
import { DEFAULT_PING_SETTINGS } from '../../../shared/domain/ping-settings.ts';
import { connectionWrites } from '../../support/audit-log.ts';
import { startConnectedLab } from '../connected-lab.ts';
import { LAB_NEEDS, type LongCase } from '../long-case.ts';

const LOSS_RATE = 0.1;
const FUNCTIONS = { updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 30_000 };

/** The chance of five losses in a row somewhere in 150 PINGs is about 0.15 %. */
export const randomLoss: LongCase = {
  name: 'C10',
  title: 'a tenth of the PINGs of a tunnel is lost at random: it never is Error',
  needs: LAB_NEEDS,
  durationMs: 300_000,
  async run({ durationMs, say, signal }) {
    await using lab = await startConnectedLab({ tunnels: 1, ping: DEFAULT_PING_SETTINGS, functions: FUNCTIONS });
    const before = (await connectionWrites(lab.api.auditLogFile ?? '')).length;
    await lab.impair('liqo-tunnel', { lossRate: LOSS_RATE, from: 'server' });
    await sleep(durationMs, undefined, { signal });
    const writes = (await connectionWrites(lab.api.auditLogFile ?? '')).slice(before);
    const ofServer = writes.filter(({ connection }) => connection.startsWith('liqo-tenant-milan/'));
    const entries = ofServer.flatMap(({ status }) => status?.tunnels ?? []);
    const lost = Number(/wg_keepalive_loss_ratio\{[^}]*\} (\S+)/.exec(await lab.gatewayMetrics('server'))?.[1]);
    say(`${entries.length} writes of the tunnel; it lost ${(lost * 100).toFixed()} % of its last 100 PINGs`);
    const errors = entries.filter(({ value }) => value === 'Error');
    return [
      ...(entries.length > 0 ? [] : ['nothing was written: the case shows nothing']),
      ...(lost > 0 ? [] : [`no PING was lost: the case shows nothing`]),
      ...(errors.length === 0 ? [] : [`${errors.length} writes say Error, the first: ${JSON.stringify(errors[0])}`]),
    ];
  },
};
