import type { Check } from '../adapters/health-server.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventBus } from '../ports/event-bus.ts';
import type { Logger } from '../ports/telemetry.ts';

const LOOK_EVERY_MS = 100;
const REMIND_EVERY_MS = 60_000;
/** Connecting takes a moment, and nobody needs to read that. */
const FIRST_LOOK_AFTER_MS = 500;

/** The bus, as a check. */
export function busCheck(bus: EventBus): Check {
  return {
    name: 'nats',
    check: () => {
      const health = bus.health();
      return health.connected ? { ok: true } : { ok: false, reason: health.reason };
    },
  };
}

/** What is not ready, by name, with the reason; empty if all is. */
function unreadyOf(checks: readonly Check[]): Record<string, string> {
  const results = checks.map(({ name, check }) => [name, check()] as const);
  return Object.fromEntries(results.flatMap(([name, result]) => (result.ok ? [] : [[name, result.reason]])));
}

/**
 * Says in the log what is missing, each time that this changes and once a minute while anything is, and that nothing is
 * any more. Resolves when `signal` aborts.
 */
export async function logReadiness(
  checks: readonly Check[],
  { clock, log, signal }: { readonly clock: Clock; readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  await clock.sleep(FIRST_LOOK_AFTER_MS, signal).catch(() => {});
  let told = '';
  let toldAtMs = clock.monotonicMs();
  while (!signal.aborted) {
    const unready = unreadyOf(checks);
    const text = JSON.stringify(unready);
    const isDue = told !== '{}' && clock.monotonicMs() - toldAtMs >= REMIND_EVERY_MS;
    if (text !== told || isDue) {
      if (text === '{}') log.info({}, 'all is there');
      else log.warn({ ...unready }, 'not there yet, keeps trying');
      told = text;
      toldAtMs = clock.monotonicMs();
    }
    await clock.sleep(LOOK_EVERY_MS, signal).catch(() => {});
  }
}

/** Resolves to true once every check is ok, or to false when `signal` aborts. */
export async function untilReady(checks: readonly Check[], clock: Clock, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    if (checks.every(({ check }) => check().ok)) return true;
    await clock.sleep(LOOK_EVERY_MS, signal).catch(() => {});
  }
  return false;
}
