import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { Connection, ConnectionRef } from '../../shared/domain/connection.ts';
import { ensureTimerMessage } from '../../shared/domain/ensure-due.ts';
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
import {
  connectionStateKey,
  observationSubject,
  observationsFilter,
  tunnelStateKey,
} from '../../shared/domain/subjects.ts';
import type { TunnelState } from '../../shared/domain/tunnel-status.ts';
import { StoreError } from '../../shared/ports/connection-store.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineFunction, type EventContext, type Outcome } from '../../shared/runtime/define-function.ts';
import { dueTimer } from '../../shared/runtime/due-timer.ts';
import { failedBy } from '../../shared/runtime/failed-by.ts';
import { lastWordsReader } from '../../shared/runtime/last-words.ts';
import { manifest } from './manifest.ts';

/**
 * A gateway is looked at again where somebody spoke since the look before. An older run may do so again and again; each look
 * leaves fewer tunnels to tell.
 */
const MAX_LOOKS = 10;
/** After the last of them. */
const LOOK_AGAIN_AFTER_MS = 1_000;

export const gatewaySilence = defineFunction<SilenceDue>({
  manifest,
  create(ports, { gatewaySilentAfterMs, updateStatusIntervalMs }) {
    const { bus, connections, state } = ports;
    const ensureDue = dueTimer(ports, ensureTimerMessage);
    const wasAway = busOutages(ports);
    const lastWords = lastWordsReader(bus);

    async function rearm(connection: ConnectionRef, dueAtUnixMs: number, hidden?: HiddenSince): Promise<void> {
      const { message, ...due } = silenceTimerMessage(connection, dueAtUnixMs, hidden);
      await bus.schedule(message, due);
    }

    /** The run that counts, whatever an older one still says; 0 where the bucket was lost, which connection-ensure mends. */
    async function acceptedEpoch(connection: ConnectionRef, nowUnixMs: number): Promise<number> {
      const gateway = (await state.get(connectionStateKey(connection)))?.value as GatewayState | undefined;
      if (gateway === undefined) await ensureDue.now(connection, nowUnixMs);
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

    /** What the words say now, and in the case of an older run what tunnel-status has seen. */
    async function look(object: Connection, due: SilenceDue, { storedAtUnixMs }: EventContext): Promise<Finding> {
      const connection = object.metadata;
      const words = await lastWords(connection);
      const lastSequence = Math.max(0, ...words.map(({ streamSequence }) => streamSequence));
      const known = { lastWords: words, acceptedEpoch: await acceptedEpoch(connection, storedAtUnixMs) };
      const timer = { dueAtUnixMs: due.dueAtUnixMs, storedAtUnixMs };
      const judgement = judgeSilence(timer, known, gatewaySilentAfterMs, wasAway(gatewaySilentAfterMs));
      if (judgement.kind !== 'hidden') return { judgement, lastSequence };
      const { silence } = judgement;
      const sequence = await sequenceOf(connection, object, silence.gatewayEpoch);
      const patienceMs = gatewaySilentAfterMs + updateStatusIntervalMs;
      const hidden = judgeHidden(due.hidden, sequence, storedAtUnixMs, patienceMs);
      if (hidden === undefined) return { judgement: silence, lastSequence };
      return { judgement: { kind: 'hidden', nextDueAtUnixMs: silence.nextDueAtUnixMs }, lastSequence, hidden };
    }

    /**
     * Says of each tunnel that the gateway is silent, and stops where anybody says anything of any of them: this process may
     * have slept since it looked.
     *
     * @param told those of which it was said; grows
     * @returns whether it is said of all
     */
    async function tellSilent(
      { metadata, status }: Connection,
      {
        silence,
        lastSequence,
        told,
      }: { readonly silence: Silence; readonly lastSequence: number; readonly told: Set<string> },
      context: EventContext,
    ): Promise<boolean> {
      let sequence = lastSequence;
      for (const { interfaceID } of status?.tunnels ?? []) {
        if (told.has(interfaceID)) continue;
        const last = { filter: observationsFilter(metadata), sequence };
        const ack = await bus.publishAfter(silentMessage(metadata, interfaceID, silence, context), last);
        if (ack === undefined) return false;
        told.add(interfaceID);
        if (!ack.duplicate) sequence = ack.sequence;
      }
      return true;
    }

    /** Looks, and says what it found, until nobody speaks in between. */
    async function judge(object: Connection, due: SilenceDue, context: EventContext): Promise<Verdict> {
      const told = new Set<string>();
      let ended: Verdict['ended'] | undefined;
      for (let looks = 0; looks < MAX_LOOKS; looks++) {
        const { judgement, lastSequence, hidden } = await look(object, due, context);
        if (judgement.kind !== 'silent') {
          ended ??= { outcome: 'throttled', reason: REASONS[judgement.kind] };
          return { ended, nextDueAtUnixMs: judgement.nextDueAtUnixMs, hidden };
        }
        const isDone = await tellSilent(object, { silence: judgement, lastSequence, told }, context);
        ended = isDone || told.size > 0 ? { outcome: 'written', reason: 'Silent', after: judgement } : SPOKE_MEANWHILE;
        if (isDone) return { ended, nextDueAtUnixMs: judgement.nextDueAtUnixMs };
      }
      return {
        ended: ended ?? SPOKE_MEANWHILE,
        nextDueAtUnixMs: context.storedAtUnixMs + LOOK_AGAIN_AFTER_MS,
        hidden: due.hidden,
      };
    }

    return {
      async handle({ data }, context): Promise<Outcome> {
        const connection = { namespace: data.namespace, name: data.connection };
        try {
          const current = await connections.get(connection, { signal: context.attemptSignal() });
          // Without a Connection there is nothing to watch over; connection-ensure arms the timer of a new one.
          if (current === undefined) return { outcome: 'orphan', reason: 'NoConnection', connection };
          const { ended, nextDueAtUnixMs, hidden } = await judge(current, data, context);
          await rearm(connection, nextDueAtUnixMs, hidden);
          return { ...ended, connection };
        } catch (err) {
          if (!(err instanceof StoreError)) throw err;
          return { ...failedBy(err), connection };
        }
      },
    };
  },
});

/** `lastSequence`: of the last word that it is judged by, 0 where there is none. */
type Finding = {
  readonly judgement: Silence | { readonly kind: keyof typeof REASONS; readonly nextDueAtUnixMs: number };
  readonly lastSequence: number;
  readonly hidden?: HiddenSince;
};

type Verdict = {
  readonly ended: Omit<Outcome, 'connection'>;
  readonly nextDueAtUnixMs: number;
  readonly hidden?: HiddenSince | undefined;
};

const REASONS = { alive: 'Alive', late: 'TimerLate', outage: 'BusWasAway', hidden: 'OlderRunSpeaks' } as const;
const SPOKE_MEANWHILE = { outcome: 'throttled', reason: 'SpokeMeanwhile', notable: true } as const;

/** By its id, another delivery of the timer says nothing new. */
function silentMessage(connection: ConnectionRef, interfaceId: string, silence: Silence, context: EventContext) {
  const { namespace, name } = connection;
  const { gatewayEpoch } = silence;
  const observedAt = new Date(context.storedAtUnixMs).toISOString();
  const about = { namespace, connection: name, interfaceId };
  const data: Silent = { ...about, kind: 'silent', gatewayEpoch, observedAt, message: messageOf(silence) };
  return encodeCloudEvent(observationSubject(connection, interfaceId), {
    id: `silent.${interfaceId}.${context.streamSequence}.${namespace}.${name}`,
    source: '/functions/gateway-silence',
    type: OBSERVATION_TYPE,
    time: observedAt,
    data,
  });
}

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
