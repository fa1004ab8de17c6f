import { FunctionsOnRealParts } from './functions-on-real-parts.ts';
import type { WgKeepalive } from './wg-keepalive.ts';

/** Two processes with all functions, ready; a tunnel that stays as it is may be written once a second. */
export async function startTwoReplicas(): Promise<{ parts: FunctionsOnRealParts; replicas: WgKeepalive[] }> {
  const parts = await FunctionsOnRealParts.start();
  const flags = ['--ping-update-status-interval=1s'];
  const replicas = [await parts.startFunctions(flags), await parts.startFunctions(flags)];
  for (const replica of replicas) await replica.untilReady();
  return { parts, replicas };
}
