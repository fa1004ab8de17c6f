import { SILENCE_DUE_TYPE, silenceDueSchema } from '../../shared/domain/silence.ts';
import { sharedConsumer } from '../../shared/domain/topology.ts';
import type { FunctionManifest } from '../../shared/runtime/define-function.ts';

export const manifest: FunctionManifest = {
  name: 'gateway-silence',
  summary: 'Notices a gateway that no longer speaks and turns its tunnels to Error',
  accepts: [{ type: SILENCE_DUE_TYPE, schema: silenceDueSchema }],
  consumers: [sharedConsumer('gateway-silence', 'TIMERS', ['due.silent.*.*'])],
  needs: {
    says: ['keepalive.*.*.*', 'timers.ensure.*.*', 'timers.silent.*.*'],
    reads: ['OBSERVATIONS'],
    readsState: true,
  },
  attemptTimeoutMs: 2_400,
  onFailure: 'retry',
};
