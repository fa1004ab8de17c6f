import type { CloudEvent } from '../../shared/domain/cloud-event.ts';
import { OBSERVATION_TYPE, type Observation, type TunnelEvent } from '../../shared/domain/observation.ts';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';

export type SyntheticOptions = {
  readonly connections: number;
  readonly tunnels: number;
  readonly intervalMs: number;
  /** Rounds of one observation a tunnel. */
  readonly rounds: number;
  /** Without it the window starts after the listing. @defaultValue true */
  readonly listed?: boolean;
  /** Every so many rounds a tunnel loses its PONGs for 8 rounds; 0: never. @defaultValue 200 */
  readonly outageEvery?: number;
};

export const START_UNIX_MS = Date.UTC(2026, 0, 1);
const EPOCH = 1_767_225_600_000;
const LOSS_THRESHOLD = 5;

/** What gateways would have said, in the order of the stream; the same options give the same messages. */
export function* syntheticObservations(options: SyntheticOptions): Generator<RecordedMessage> {
  let streamSequence = 0;
  const stored = (atMs: number, id: string, data: TunnelEvent): RecordedMessage => {
    const source = `/gateways/${data.namespace}/${data.connection}`;
    const event: CloudEvent = { id, source, type: OBSERVATION_TYPE, time: data.observedAt, data };
    streamSequence += 1;
    return { stream: 'OBSERVATIONS', sequence: streamSequence, storedAtUnixMs: START_UNIX_MS + atMs + 3, event };
  };
  if (options.listed !== false) {
    for (const tunnel of tunnelsOf(options)) {
      const about = { namespace: tunnel.namespace, connection: tunnel.connection, interfaceId: tunnel.interfaceId };
      yield stored(0, `listed.${tunnel.index}`, {
        ...about,
        kind: 'listed',
        connectionUid: `uid-${tunnel.connection}`,
        gatewayEpoch: EPOCH,
        observedAt: iso(0),
      });
    }
  }
  for (let round = 0; round < options.rounds; round++) {
    for (const tunnel of tunnelsOf(options)) {
      const atMs = (round + 1) * options.intervalMs + (tunnel.index % 16);
      yield stored(atMs, `run.${tunnel.interfaceId}.${round + 1}`, observation(tunnel, round, atMs, options));
    }
  }
}

type Tunnel = Pick<Observation, 'namespace' | 'connection' | 'interfaceId'> & { readonly index: number };

function* tunnelsOf({ connections, tunnels }: SyntheticOptions): Generator<Tunnel> {
  for (let c = 0; c < connections; c++) {
    for (let t = 0; t < tunnels; t++) {
      const index = c * tunnels + t;
      yield { namespace: `liqo-tenant-${c}`, connection: `gw-${c}`, interfaceId: interfaceIdOf(t), index };
    }
  }
}

function observation(tunnel: Tunnel, round: number, atMs: number, options: SyntheticOptions): Observation {
  const { outageEvery = 200 } = options;
  const { index, ...names } = tunnel;
  const phase = outageEvery === 0 ? outageEvery : (round + index * 7) % outageEvery;
  const lost = outageEvery === 0 || round < 3 ? 0 : Math.max(0, phase - (outageEvery - 9));
  const common = { ...names, gatewayEpoch: EPOCH, sequence: round + 1, monotonicMs: atMs, observedAt: iso(atMs) };
  if (lost === 0) {
    const rttNs = 1_000_000 + ((index * 7_919 + round * 104_729) % 500_000);
    return { ...common, kind: 'pong', value: 'Connected', rttNs, minRttNs: 1_000_000 };
  }
  const message = `no PONG since ${iso(atMs - lost * options.intervalMs)}`;
  return lost < LOSS_THRESHOLD
    ? { ...common, kind: 'miss', value: 'Connected', consecutiveMisses: lost }
    : { ...common, kind: 'down', value: 'Error', consecutiveMisses: lost, reason: 'Lost', message };
}

function iso(atMs: number): string {
  return new Date(START_UNIX_MS + atMs).toISOString();
}
