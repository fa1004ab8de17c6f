import type { WorkerDefinition } from '../../shared/runtime/define-worker.ts';

export const manifest: WorkerDefinition['manifest'] = {
  name: 'connection-watch',
  summary:
    'Turns Kubernetes watch events of Connections and PublicKeys into CHANGES, each once however many replicas run',
  needs: { says: ['changes.*.*.*'], reads: ['CHANGES'] },
};
