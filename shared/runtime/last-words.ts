import type { ConnectionRef } from '../domain/connection.ts';
import { type TunnelEvent, tunnelEventContract } from '../domain/observation.ts';
import { INVALID_WORD, type LastWord } from '../domain/silence.ts';
import { observationsFilter } from '../domain/subjects.ts';
import type { EventBus } from '../ports/event-bus.ts';
import { eventDecoder } from './event-decoder.ts';

type StoredWord = LastWord & { readonly streamSequence: number };

/** Reads the last event of each tunnel of a Connection, by direct get; one that is not valid says only that somebody spoke. */
export function lastWordsReader(bus: EventBus): (connection: ConnectionRef) => Promise<readonly StoredWord[]> {
  const decode = eventDecoder([tunnelEventContract]);
  return async (connection) => {
    const messages = await bus.lastMessages('OBSERVATIONS', observationsFilter(connection));
    return messages.map((message) => {
      const { storedAtUnixMs, streamSequence } = message;
      const decoded = decode(message);
      if ('error' in decoded) return { kind: INVALID_WORD, gatewayEpoch: 0, storedAtUnixMs, streamSequence };
      const { kind, gatewayEpoch } = decoded.event.data as TunnelEvent;
      return { kind, gatewayEpoch, storedAtUnixMs, streamSequence };
    });
  };
}
