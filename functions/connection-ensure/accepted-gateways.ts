import { type ConnectionRef, connectionKey } from '../../shared/domain/connection.ts';
import { type GatewayAnnouncement, gatewayAnnouncementContract } from '../../shared/domain/gateway-announcement.ts';
import { type AnnouncementJudgement, type GatewayState, judgeAnnouncement } from '../../shared/domain/gateway-state.ts';
import { connectionStateKey } from '../../shared/domain/subjects.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { eventDecoder } from '../../shared/runtime/event-decoder.ts';

const MAX_RACES = 8;

export type Announced = {
  readonly announcement: GatewayAnnouncement;
  /** Its GATEWAYS sequence. */
  readonly sequence: number;
  readonly storedAtUnixMs: number;
};

/** The gateway run that counts for each Connection, fenced by compare-and-set. */
export type AcceptedGateways = {
  accept(announced: Announced): Promise<AnnouncementJudgement>;
  of(connection: ConnectionRef): Promise<GatewayState | undefined>;
  /** The last announcements that match `filter`, e.g. `gateways.*.*`, whether accepted yet or not. */
  announced(filter: string): Promise<readonly Announced[]>;
};

export function acceptedGateways({ state, bus }: Pick<FunctionPorts, 'state' | 'bus'>): AcceptedGateways {
  const decode = eventDecoder([gatewayAnnouncementContract]);
  return {
    async accept({ announcement, sequence }) {
      const ref = { namespace: announcement.namespace, name: announcement.connection };
      const key = connectionStateKey(ref);
      for (let race = 0; race < MAX_RACES; race++) {
        const entry = await state.get(key);
        const judgement = judgeAnnouncement(entry?.value as GatewayState | undefined, announcement, sequence);
        if (judgement.kind !== 'accepted') return judgement;
        if ((await state.put(key, judgement.state, entry?.revision ?? 0)) !== undefined) return judgement;
      }
      throw new Error(`announcement of ${connectionKey(ref)}: ${MAX_RACES} races lost in a row`);
    },

    async of(connection) {
      const entry = await state.get(connectionStateKey(connection));
      return entry?.value as GatewayState | undefined;
    },

    async announced(filter) {
      const messages = await bus.lastMessages('GATEWAYS', filter);
      return messages.flatMap((message) => {
        const decoded = decode(message);
        // A malformed one was dead-lettered when it was delivered.
        if ('error' in decoded) return [];
        const { streamSequence: sequence, storedAtUnixMs } = message;
        return [{ announcement: decoded.event.data as GatewayAnnouncement, sequence, storedAtUnixMs }];
      });
    },
  };
}
