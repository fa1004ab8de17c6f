import type { NatsLink } from '../adapters/nats-link.ts';
import { StartError } from './errors.ts';

const DEFAULT_TIMEOUT_MS = 10_000;

/**
 * For commands that people wait for: the link itself would try for ever.
 *
 * @param stop - ends the wait early
 * @throws StartError that names the servers and says why, if there is no connection in time
 */
export async function untilConnected(
  link: NatsLink,
  servers: readonly string[],
  { stop, timeoutMs = DEFAULT_TIMEOUT_MS }: { readonly stop?: AbortSignal; readonly timeoutMs?: number } = {},
): Promise<void> {
  const late = AbortSignal.timeout(timeoutMs);
  await link.whenUp(stop === undefined ? late : AbortSignal.any([stop, late])).catch((cause) => {
    const health = link.health();
    const why = health.connected ? 'no connection in time' : health.reason;
    throw new StartError(`--nats-url ${servers.join(',')}: ${why}; is it there, and may this user in?`, { cause });
  });
}
