import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { type ConnectionDue, nextDueDelayMs } from '../../shared/domain/connection-due.ts';
import { ensureTimerMessage } from '../../shared/domain/ensure-due.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';

/** Brings a gateway back, to whichever replica; of two timers for one Connection the later one counts. */
export function ensureTimer({ bus, clock }: Pick<FunctionPorts, 'bus' | 'clock'>) {
  async function arm(connection: ConnectionRef, dueAtUnixMs: number, delayMs: number): Promise<void> {
    const armedAtUnixMs = clock.unixMs();
    const { message, ...due } = ensureTimerMessage(connection, { dueAtUnixMs, delayMs, armedAtUnixMs });
    await bus.schedule(message, due);
  }

  return {
    /** At once: for who has to know the server's time of now, which an event that waited does not tell. */
    now: (connection: ConnectionRef, pastUnixMs: number) => arm(connection, pastUnixMs, 0),

    /** @param last - the timer that came. @defaultValue none did */
    later(connection: ConnectionRef, nowUnixMs: number, last?: ConnectionDue): Promise<void> {
      const delayMs = nextDueDelayMs(last?.delayMs);
      return arm(connection, nowUnixMs + delayMs, delayMs);
    },
  };
}
