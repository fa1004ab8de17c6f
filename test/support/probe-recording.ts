import { OBSERVATION_TYPE, type Observation } from '../../shared/domain/observation.ts';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import type { VerdictSettings } from '../../shared/domain/rejudge.ts';
import { formatRfc3339Ms, unixNanosOfMs } from '../../shared/domain/rfc3339-nanos.ts';
import type { Sighting } from '../../shared/domain/sighting.ts';
import { TunnelProbe } from '../../shared/domain/tunnel-probe.ts';
import { START_UNIX_MS } from './synthetic-observations.ts';

/** A time during which the path of the tunnel drops everything, in ms since the run began. */
export type PathOutage = { readonly fromMs: number; readonly toMs: number };

const RTT_MS = 3;
const NAMES = { namespace: 'ns', connection: 'gw-a', interfaceId: 'liqo-tunnel' };

/** What a gateway with these settings says of a path: the true probe, on simulated time. */
export function probeRecording(
  settings: VerdictSettings,
  outages: readonly PathOutage[],
  durationMs: number,
): RecordedMessage[] {
  const messages: RecordedMessage[] = [];
  const emit = ({ observedAtUnixMs, ...sighting }: Sighting): void => {
    const observedAt = formatRfc3339Ms(observedAtUnixMs);
    const data: Observation = { ...NAMES, ...sighting, gatewayEpoch: 7, observedAt };
    const id = `run.liqo-tunnel.${data.sequence}`;
    messages.push({
      ...{ stream: 'OBSERVATIONS', sequence: messages.length + 1 },
      storedAtUnixMs: START_UNIX_MS + Math.round(data.monotonicMs) + 1,
      event: { id, source: '/gateways/ns/a', type: OBSERVATION_TYPE, data },
    });
  };
  const moment = (ms: number) => ({ monotonicMs: ms, unixMs: START_UNIX_MS + ms });
  const probe = new TunnelProbe({ interfaceId: 'liqo-tunnel', lastSequence: 0, emit }, settings, moment(0));
  const isCut = (ms: number) => outages.some(({ fromMs, toMs }) => ms >= fromMs && ms < toMs);
  const pongs: { readonly atMs: number; readonly stamp: ReturnType<typeof unixNanosOfMs> }[] = [];
  for (let nowMs = 0; nowMs < durationMs; ) {
    while (pongs[0] !== undefined && pongs[0].atMs <= nowMs) {
      const { stamp, atMs } = pongs.shift() as (typeof pongs)[number];
      probe.pong(stamp, moment(atMs));
    }
    probe.judge(moment(nowMs));
    const due = probe.takeDue(nowMs);
    if (due !== undefined) {
      const stamp = unixNanosOfMs(START_UNIX_MS + nowMs);
      probe.sent(stamp, moment(nowMs), due);
      probe.accepted();
      if (!isCut(nowMs)) pongs.push({ atMs: nowMs + RTT_MS, stamp });
    }
    nowMs = Math.max(
      nowMs + 1e-3,
      Math.min(pongs[0]?.atMs ?? Number.POSITIVE_INFINITY, probe.sendAtMs(), probe.judgeAtMs()),
    );
  }
  return messages;
}

/** Changes of value as the gateway itself knows them. */
export function verdictsOf(messages: readonly RecordedMessage[]): { readonly value: string; readonly atMs: number }[] {
  const verdicts: { readonly value: string; readonly atMs: number }[] = [];
  for (const { value, monotonicMs } of messages.map(observationOf)) {
    if (verdicts.at(-1)?.value !== value) verdicts.push({ value, atMs: monotonicMs });
  }
  return verdicts;
}

export function observationOf({ event }: RecordedMessage): Observation {
  if (event === undefined) throw new Error('the message is no event');
  return event.data as Observation;
}
