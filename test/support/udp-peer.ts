import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { decodePingMessage } from '../../shared/domain/ping-wire.ts';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';
import { answerAsGo } from './peers.ts';

type Answer = (pong: Uint8Array, send: (bytes: Uint8Array) => void) => void;

/** A peer on a UDP socket of its own, which answers as the Go implementation does; closed, it sends nothing more. */
export class UdpPeer {
  readonly socket: Socket = createSocket('udp4');
  /** The time stamps of the PINGs it got, each once. */
  readonly pingStamps = new Set<string>();
  /** What it got that is no PING. */
  readonly strays: Uint8Array[] = [];
  /** PINGs it took for an answer. */
  pings = 0;
  /** Deaf, it takes no PING. */
  isDeaf = false;
  #isOpen = true;

  private constructor() {}

  /** @param answer - sends what it likes, when it likes, with the given function; as it stands, the PONG at once */
  static async start({ address, port }: Endpoint, answer: Answer = (pong, send) => send(pong)): Promise<UdpPeer> {
    const peer = new UdpPeer();
    peer.socket.on('message', (bytes, from) => {
      const pong = answerAsGo(bytes);
      if (pong === undefined) peer.strays.push(bytes);
      if (pong === undefined || peer.isDeaf) return;
      peer.pings += 1;
      peer.pingStamps.add(JSON.stringify(decodePingMessage(bytes)?.timeStamp));
      answer(pong, (reply) => peer.#isOpen && peer.socket.send(reply, from.port, from.address));
    });
    peer.socket.bind(port, address);
    await once(peer.socket, 'listening');
    return peer;
  }

  close(): void {
    if (this.#isOpen) this.socket.close();
    this.#isOpen = false;
  }
}

/** Answers that much later. */
export function after(delayMs: number): Answer {
  return (pong, send) => void setTimeout(send, delayMs, pong);
}
