import type { TunnelWire } from '../../shared/domain/ping-wire.ts';
import type { Moment } from '../../shared/domain/sighting.ts';
import type { StampSource } from '../../shared/domain/stamp-source.ts';
import type { TunnelProbe } from '../../shared/domain/tunnel-probe.ts';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';
import type { TunnelLink } from '../../shared/runtime/tunnel-link.ts';

type Parts = {
  readonly probe: TunnelProbe;
  readonly wire: TunnelWire;
  readonly link: TunnelLink;
  readonly stamps: StampSource;
  readonly peer: Endpoint;
  readonly now: () => Moment;
  /** The verdict of a refused PING may be due earlier than anything planned. */
  readonly onRefused: () => void;
};

export type PingSender = {
  /** Sends the PING that is due at `atMs`, if any. */
  wake(atMs: number): void;
};

/** Every PING ends here in `accepted` or `refused`; no error of a send goes further. */
export function createPingSender({ probe, wire, link, stamps, peer, now, onRefused }: Parts): PingSender {
  /** Belongs to the socket while a send is on its way. */
  let template = wire.newPing();
  let isOnItsWay = false;

  return {
    wake(atMs) {
      const due = probe.takeDue(atMs);
      if (due === undefined) return;
      if (isOnItsWay) template = wire.newPing();
      const moment = now();
      const stamp = stamps.next(moment.monotonicMs);
      const bytes = template;
      wire.stampPing(bytes, stamp);
      probe.sent(stamp, moment, due);
      isOnItsWay = true;
      link.send(bytes, peer, (errorCode) => {
        if (bytes === template) isOnItsWay = false;
        if (errorCode === undefined) {
          probe.accepted();
        } else {
          probe.refused(stamp, errorCode, now());
          onRefused();
        }
      });
    },
  };
}
