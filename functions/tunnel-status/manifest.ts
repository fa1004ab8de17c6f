import { tunnelEventContract } from '../../shared/domain/observation.ts';
import { partitionConsumers } from '../../shared/domain/topology.ts';
import type { FunctionManifest } from '../../shared/runtime/define-function.ts';

export const manifest: FunctionManifest = {
  name: 'tunnel-status',
  summary: "Writes each tunnel's entry in Connection.status.tunnels from the observations, throttled",
  accepts: [tunnelEventContract],
  consumers: partitionConsumers('tunnel-status'),
  needs: { reads: ['OBSERVATIONS'], keepsState: true },
  attemptTimeoutMs: 2_400,
  onFailure: 'ack',
};
