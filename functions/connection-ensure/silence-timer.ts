import type { ConnectionRef } from '../../shared/domain/connection.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import { silenceTimerMessage } from '../../shared/domain/silence.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';

/** Arms the silence timer of a listed Connection once; gateway-silence re-arms it from then on. */
export function silenceTimer({ bus }: Pick<FunctionPorts, 'bus'>, { gatewaySilentAfterMs }: FunctionSettings) {
  return async (connection: ConnectionRef, nowUnixMs: number): Promise<void> => {
    const { message, ...due } = silenceTimerMessage(connection, nowUnixMs + gatewaySilentAfterMs);
    await bus.schedule(message, { ...due, keepFirst: true });
  };
}
