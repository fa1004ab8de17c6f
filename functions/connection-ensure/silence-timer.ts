import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { silenceTimerMessage } from '../../shared/domain/silence.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** How long a gateway that nobody watches over may stay so while its Connection changes. */
const WATCH_OVER_EVERY_MS = 60_000;
const MAX_WATCHED_OVER = 10_000;

/** Arms the silence timer of a listed Connection once; gateway-silence re-arms it from then on. Times are the bus server's. */
export function silenceTimer({ bus }: Pick<FunctionPorts, 'bus'>, { gatewaySilentAfterMs }: FunctionSettings) {
  const watchedOverAtMs = new BoundedMap<string, number>(MAX_WATCHED_OVER);

  async function arm(connection: ConnectionRef, nowUnixMs: number): Promise<void> {
    const { message, ...due } = silenceTimerMessage(connection, nowUnixMs + gatewaySilentAfterMs);
    await bus.schedule(message, { ...due, keepFirst: true });
  }

  return {
    arm,

    /** Now and then: the chain of timers ends where nobody takes one up for as long as their stream keeps them. */
    async watchOver(connection: ConnectionRef, nowUnixMs: number): Promise<void> {
      const key = connectionKey(connection);
      if (nowUnixMs - (watchedOverAtMs.get(key) ?? 0) < WATCH_OVER_EVERY_MS) return;
      await arm(connection, nowUnixMs);
      watchedOverAtMs.set(key, nowUnixMs);
    },
  };
}
