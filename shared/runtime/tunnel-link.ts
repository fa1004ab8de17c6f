import { wantsNewSocket } from '../domain/socket-fault.ts';
import type { TunnelEndpoint } from '../domain/tunnel-interface.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import type { DatagramSocket, DatagramSockets, Endpoint } from '../ports/datagram-socket.ts';

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 1_000;

/** The socket of one tunnel as its sender and receiver see it: always there, sometimes failing. */
export type TunnelLink = {
  /** Like {@link DatagramSocket.send} to `to`; while there is no socket, fails at once with the reason's code. */
  send(bytes: Uint8Array, to: Endpoint, done: (errorCode: string | undefined) => void): void;
  /** Why there is no socket; `undefined` while there is one. */
  fault(): string | undefined;
  close(): void;
};

type Ports = { readonly sockets: DatagramSockets; readonly clock: Clock };

/** Keeps a socket open for as long as the tunnel is configured, whatever becomes of its interface. */
export function openTunnelLink(
  { local, peer }: TunnelEndpoint,
  { sockets, clock }: Ports,
  onMessage: (bytes: Uint8Array, from: Endpoint) => void,
  onError: (errorCode: string) => void,
): TunnelLink {
  let socket: DatagramSocket | undefined;
  let faultCode = 'ENOTCONN';
  let retryMs = FIRST_RETRY_MS;
  let retry: Timer | undefined;
  let isClosed = false;

  const renew = (code: string) => {
    faultCode = code;
    socket?.close();
    socket = undefined;
    if (isClosed) return;
    retry?.cancel();
    retry = clock.after(retryMs, open);
    retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS);
  };

  function open(): void {
    let mine: DatagramSocket | undefined;
    const failed = (code: string) => {
      if (isClosed) return;
      onError(code);
      if (mine !== undefined && mine === socket && wantsNewSocket(code)) renew(code);
    };
    sockets
      .open({ local, peer, onMessage: (bytes, from) => !isClosed && onMessage(bytes, from), onError: failed })
      .then(
        (opened) => {
          if (isClosed) return opened.close();
          mine = socket = opened;
        },
        (error: NodeJS.ErrnoException) => renew(error.code ?? 'EUNKNOWN'),
      );
  }
  open();

  return {
    send(bytes, to, done) {
      const used = socket;
      if (used === undefined) {
        done(faultCode);
        return;
      }
      used.send(bytes, to, (code) => {
        if (code === undefined) retryMs = FIRST_RETRY_MS;
        else if (used === socket && wantsNewSocket(code)) renew(code);
        done(code);
      });
    },
    fault: () => (socket === undefined ? faultCode : undefined),
    close() {
      isClosed = true;
      retry?.cancel();
      socket?.close();
      socket = undefined;
      faultCode = 'ERR_SOCKET_CLOSED';
    },
  };
}
