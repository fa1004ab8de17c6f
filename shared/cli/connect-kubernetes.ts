import { KubernetesClient } from '../adapters/kubernetes-client.ts';
import { systemClock } from '../adapters/system-clock.ts';
import { StartError } from './errors.ts';

/** @throws StartError if nothing says where the API server is; whether it answers shows later */
export async function connectKubernetes(): Promise<KubernetesClient> {
  try {
    return await KubernetesClient.connect({ clock: systemClock });
  } catch (error) {
    const { message } = error as Error;
    throw new StartError(`${message}; run it in a pod, or set KUBECONFIG to the path of a kubeconfig file`, {
      cause: error,
    });
  }
}
