import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { Connection, ConnectionRef } from '../../shared/domain/connection.ts';
import type { GatewayState } from '../../shared/domain/gateway-state.ts';
import { OBSERVATION_TYPE, type Silent } from '../../shared/domain/observation.ts';
import {
  type HiddenSince,
  judgeHidden,
  judgeSilence,
  type Silence,
  type SilenceDue,
  silenceTimerMessage,
} from '../../shared/domain/silence.ts';
import { connectionStateKey, observationSubject, tunnelStateKey } from '../../shared/domain/subjects.ts';
import type { TunnelState } from '../../shared/domain/tunnel-status.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { failedBy } from '../../shared/runtime/failed-by.ts';
import { lastWordsReader } from '../../shared/runtime/last-words.ts';
import { manifest } from './manifest.ts';

export const gatewaySilence = defineFunction<SilenceDue>({
  manifest,
  create(ports, { gatewaySilentAfterMs, updateStatusIntervalMs }) {
    const { bus, connections, state } = ports;
    const wasAway = busOutages(ports);
    const lastWords = lastWordsReader(bus);

    async function rearm(connection: ConnectionRef, dueAtUnixMs: number, hidden?: HiddenSince): Promise<void> {
      const { message, ...due } = silenceTimerMessage(connection, dueAtUnixMs, hidden);
      await bus.schedule(message, due);
    }

    /** The run that counts, whatever an older one still says; 0 where the bucket was lost. */
    async function acceptedEpoch(connection: ConnectionRef): Promise<number> {
      const gateway = (await state.get(connectionStateKey(connection)))?.value as GatewayState | undefined;
      return gateway?.epoch ?? 0;
    }

    /** How far a run has come, by what tunnel-status keeps of it. */
    async function sequenceOf(connection: ConnectionRef, object: Connection, gatewayEpoch: number): Promise<number> {
      const tunnels = object.status?.tunnels ?? [];
      const entries = await Promise.all(
        tunnels.map(({ interfaceID }) => state.get(tunnelStateKey(connection, interfaceID))),
      );
      const states = entries.flatMap((entry) => (entry === undefined ? [] : [entry.value as TunnelState]));
      return states.reduce((sum, tunnel) => sum + (tunnel.gatewayEpoch >= gatewayEpoch ? tunnel.sequence : 0), 0);
    }

    async function tellSilent(
      connection: ConnectionRef,
      interfaceId: string,
      judgement: Silence,
      context: EventContext,
    ) {
      const silent: Silent = {
        namespace: connection.namespace,
        connection: connection.name,
        interfaceId,
        kind: 'silent',
        gatewayEpoch: judgement.gatewayEpoch,
        observedAt: new Date(context.storedAtUnixMs).toISOString(),
        message: messageOf(judgement),
      };
      await bus.publish(
        encodeCloudEvent(observationSubject(connection, interfaceId), {
          id: `silent.${interfaceId}.${context.streamSequence}.${connection.namespace}.${connection.name}`,
          source: '/functions/gateway-silence',
          type: OBSERVATION_TYPE,
          time: silent.observedAt,
          data: silent,
        }),
      );
    }

    return {
      async handle({ data }, context): Promise<Outcome> {
        const connection = { namespace: data.namespace, name: data.connection };
        try {
          const current = await connections.get(connection, { signal: context.attemptSignal() });
          // Without a Connection there is nothing to watch over; connection-ensure arms the timer of a new one.
          if (current === undefined) return { outcome: 'orphan', reason: 'NoConnection', connection };
          const due = { dueAtUnixMs: data.dueAtUnixMs, storedAtUnixMs: context.storedAtUnixMs };
          const known = { lastWords: await lastWords(connection), acceptedEpoch: await acceptedEpoch(connection) };
          let judgement = judgeSilence(due, known, gatewaySilentAfterMs, wasAway(gatewaySilentAfterMs));
          if (judgement.kind === 'hidden') {
            const { silence } = judgement;
            const sequence = await sequenceOf(connection, current, silence.gatewayEpoch);
            const patienceMs = gatewaySilentAfterMs + updateStatusIntervalMs;
            const hidden = judgeHidden(data.hidden, sequence, context.storedAtUnixMs, patienceMs);
            if (hidden !== undefined) {
              await rearm(connection, silence.nextDueAtUnixMs, hidden);
              return { outcome: 'throttled', reason: 'OlderRunSpeaks', connection };
            }
            judgement = silence;
          }
          if (judgement.kind === 'silent') {
            for (const { interfaceID } of current.status?.tunnels ?? []) {
              await tellSilent(connection, interfaceID, judgement, context);
            }
          }
          await rearm(connection, judgement.nextDueAtUnixMs);
          return judgement.kind === 'silent'
            ? { outcome: 'written', reason: 'Silent', connection, after: judgement }
            : { outcome: 'throttled', reason: REASONS[judgement.kind], connection };
        } catch (err) {
          if (!(err instanceof StoreError)) throw err;
          return { ...failedBy(err), connection };
        }
      },
    };
  },
});

const REASONS = { alive: 'Alive', late: 'TimerLate', outage: 'BusWasAway' } as const;

function messageOf({ sinceUnixMs, gatewayEpoch }: Silence): string {
  return sinceUnixMs === undefined
    ? `gateway run ${gatewayEpoch} has said nothing since it was listed`
    : `gateway run ${gatewayEpoch} has said nothing since ${new Date(sinceUnixMs).toISOString()}`;
}

/** Whether this process saw the bus out of reach lately. */
function busOutages({ bus, clock }: Pick<FunctionPorts, 'bus' | 'clock'>): (withinMs: number) => boolean {
  let lastAwayMs = Number.NEGATIVE_INFINITY;
  bus.onHealthChange(() => {
    lastAwayMs = clock.monotonicMs();
  });
  return (withinMs) => !bus.health().connected || clock.monotonicMs() - lastAwayMs < withinMs;
}
