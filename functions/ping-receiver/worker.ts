import { AnsweredPings } from '../../shared/domain/answered-pings.ts';
import type { TunnelWire, WireFault } from '../../shared/domain/ping-wire.ts';
import type { UnixNanos } from '../../shared/domain/rfc3339-nanos.ts';
import type { Moment } from '../../shared/domain/sighting.ts';
import type { Stall } from '../../shared/domain/stall.ts';
import type { PongFault, TunnelProbe } from '../../shared/domain/tunnel-probe.ts';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';
import type { TunnelLink } from '../../shared/runtime/tunnel-link.ts';

/** Why a datagram changes nothing; the label of `wg_keepalive_packets_dropped_total`. */
export type DropReason = WireFault | PongFault | 'oversize' | 'wrong-source' | 'repeated-ping' | 'reply-failed';

type Parts = {
  /** Left out where PINGs are not enabled: the peer's are answered all the same. */
  readonly probe: TunnelProbe | undefined;
  readonly wire: TunnelWire;
  readonly link: TunnelLink;
  /** Address of the tunnel's peer: nobody else is heard or answered. */
  readonly peerAddress: string;
  readonly bufferSizeBytes: number;
  readonly now: () => Moment;
  /** The pause that is being read up on, if any. */
  readonly stall: (moment: Moment) => Stall | undefined;
  readonly onAnswered: () => void;
  readonly onDropped: (reason: DropReason) => void;
};

export type PingReceiver = (bytes: Uint8Array, from: Endpoint) => void;

/** Never throws, whatever comes; a PONG is never answered, a PING at most once, to its source. */
export function createPingReceiver(parts: Parts): PingReceiver {
  const { probe, wire, link, peerAddress, bufferSizeBytes, now, stall, onAnswered, onDropped } = parts;
  const answered = new AnsweredPings();

  const onReplied = (errorCode: string | undefined) => {
    if (errorCode === undefined) onAnswered();
    else onDropped('reply-failed');
  };

  const answer = (stamp: UnixNanos, reply: Uint8Array, from: Endpoint) => {
    if (!answered.isFirst(stamp)) {
      onDropped('repeated-ping');
      return;
    }
    link.send(reply, from, onReplied);
  };

  const receive = (bytes: Uint8Array, from: Endpoint): DropReason | undefined => {
    const moment = now(); // before anything else: this ends the round trip
    if (from.address !== peerAddress) return 'wrong-source';
    if (bytes.length > bufferSizeBytes) return 'oversize';
    const frame = wire.read(bytes);
    if (frame.kind === 'dropped') return frame.reason;
    if (frame.kind === 'ping') {
      answer(frame.stamp, frame.reply, from);
      return undefined;
    }
    const verdict = probe?.pong(frame.stamp, moment, stall(moment)) ?? 'unknown';
    return verdict === 'counted' ? undefined : verdict;
  };

  return (bytes, from) => {
    const dropReason = receive(bytes, from);
    if (dropReason !== undefined) onDropped(dropReason);
  };
}
