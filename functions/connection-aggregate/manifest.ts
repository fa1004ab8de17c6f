import { aggregateDueContract } from '../../shared/domain/aggregate-due.ts';
import { CHANGE_TYPE, changeSchema } from '../../shared/domain/change.ts';
import { sharedConsumer } from '../../shared/domain/topology.ts';
import type { FunctionManifest } from '../../shared/runtime/define-function.ts';

export const manifest: FunctionManifest = {
  name: 'connection-aggregate',
  summary: 'Computes status.value, status.latency and the Ready condition of a Connection from its tunnels',
  accepts: [{ type: CHANGE_TYPE, schema: changeSchema }, aggregateDueContract],
  consumers: [
    sharedConsumer('connection-aggregate', 'CHANGES', ['changes.connections.*.*']),
    sharedConsumer('connection-aggregate-due', 'TIMERS', ['due.aggregate.*.*']),
  ],
  needs: { says: ['timers.aggregate.*.*'] },
  attemptTimeoutMs: 2_400,
  onFailure: 'retry',
};
