import type { ConnectionRef } from '../domain/connection.ts';
import { type ConnectionDue, type ConnectionTimer, nextDueDelayMs } from '../domain/connection-due.ts';
import type { TimerMessage } from '../domain/timer-message.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';

/** Brings a Connection back to a function, to whichever replica; of two timers for one Connection the later one counts. */
export function dueTimer(
  { bus, clock }: Pick<FunctionPorts, 'bus' | 'clock'>,
  timerOf: (connection: ConnectionRef, timer: ConnectionTimer) => TimerMessage,
) {
  async function arm(connection: ConnectionRef, dueAtUnixMs: number, delayMs: number): Promise<void> {
    const armedAtUnixMs = clock.unixMs();
    const { message, ...due } = timerOf(connection, { dueAtUnixMs, delayMs, armedAtUnixMs });
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
