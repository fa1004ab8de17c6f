import { CHANGE_TYPE, changeSchema } from '../../shared/domain/change.ts';
import { gatewayAnnouncementContract } from '../../shared/domain/gateway-announcement.ts';
import { sharedConsumer } from '../../shared/domain/topology.ts';
import type { FunctionManifest } from '../../shared/runtime/define-function.ts';

export const manifest: FunctionManifest = {
  name: 'connection-ensure',
  summary: 'Creates the Connection of a gateway and makes the tunnels it lists the tunnels that are configured',
  accepts: [gatewayAnnouncementContract, { type: CHANGE_TYPE, schema: changeSchema }],
  consumers: [
    sharedConsumer('connection-ensure-gateways', 'GATEWAYS', ['gateways.*.*']),
    sharedConsumer('connection-ensure-changes', 'CHANGES', ['changes.connections.*.*', 'changes.publickeies.*.*']),
  ],
  needs: {
    says: ['keepalive.*.*.*', 'timers.silent.*.*'],
    reads: ['GATEWAYS', 'OBSERVATIONS'],
    keepsState: true,
  },
  attemptTimeoutMs: 2_400,
  onFailure: 'retry',
};
