import { CHANGE_TYPE, changeSchema } from '../../shared/domain/change.ts';
import { ensureDueContract } from '../../shared/domain/ensure-due.ts';
import { gatewayAnnouncementContract } from '../../shared/domain/gateway-announcement.ts';
import { sharedConsumer } from '../../shared/domain/topology.ts';
import type { FunctionManifest } from '../../shared/runtime/define-function.ts';

export const manifest: FunctionManifest = {
  name: 'connection-ensure',
  summary: 'Creates the Connection of a gateway and makes the tunnels it lists the tunnels that are configured',
  accepts: [gatewayAnnouncementContract, { type: CHANGE_TYPE, schema: changeSchema }, ensureDueContract],
  consumers: [
    sharedConsumer('connection-ensure-gateways', 'GATEWAYS', ['gateways.*.*']),
    sharedConsumer('connection-ensure-changes', 'CHANGES', ['changes.connections.*.*', 'changes.publickeies.*.*']),
    sharedConsumer('connection-ensure-due', 'TIMERS', ['due.ensure.*.*']),
  ],
  needs: {
    says: ['keepalive.*.*.*', 'timers.ensure.*.*', 'timers.silent.*.*'],
    reads: ['GATEWAYS', 'OBSERVATIONS'],
    keepsState: true,
  },
  attemptTimeoutMs: 2_400,
  onFailure: 'retry',
};
