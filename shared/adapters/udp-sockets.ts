import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { isIP } from 'node:net';
import type { DatagramSocket, DatagramSockets, Endpoint } from '../ports/datagram-socket.ts';

/** Turns of the event loop that a backlog may take: each reads up to 32 datagrams a socket. */
const MAX_BACKLOG_TURNS = 64;

type OpenOptions = Parameters<DatagramSockets['open']>[0];

/** UDP of Node. Connected sockets: the kernel itself keeps strangers out, and a send looks up neither name nor route. */
export class UdpSockets implements DatagramSockets {
  #received = 0;

  open(options: OpenOptions): Promise<DatagramSocket> {
    return new Promise((resolve, reject) => {
      const { local, peer, onMessage, onError } = options;
      const socket = createSocket({ type: isIP(peer.address) === 6 ? 'udp6' : 'udp4', lookup: numericOnly });
      const fail = (error: Error) => {
        socket.close();
        reject(error);
      };
      socket.once('error', fail);
      socket.bind({ address: local.address, port: local.port, exclusive: true }, () => {
        socket.connect(peer.port, peer.address, (error?: Error) => {
          if (error) return;
          socket.off('error', fail);
          socket.on('error', (failure: NodeJS.ErrnoException) => onError(failure.code ?? 'EUNKNOWN'));
          socket.on('message', (bytes: Uint8Array, from: RemoteInfo) => {
            this.#received += 1;
            onMessage(bytes, from);
          });
          resolve(new UdpSocket(socket));
        });
      });
    });
  }

  afterBacklog(task: () => void): void {
    let seen = this.#received;
    let turns = 0;
    const turn = () => {
      turns += 1;
      if (this.#received === seen || turns >= MAX_BACKLOG_TURNS) return task();
      seen = this.#received;
      setImmediate(turn);
    };
    setImmediate(turn); // after the sockets have had their turn
  }
}

class UdpSocket implements DatagramSocket {
  readonly #socket: Socket;
  #isClosed = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  send(bytes: Uint8Array, _to: Endpoint, done: (errorCode: string | undefined) => void): void {
    if (this.#isClosed) {
      done('ERR_SOCKET_CLOSED');
      return;
    }
    this.#socket.send(bytes, (error: NodeJS.ErrnoException | null) =>
      done(error ? (error.code ?? 'EUNKNOWN') : undefined),
    );
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#socket.close();
  }
}

type Lookup = (
  name: string,
  options: unknown,
  callback: (error: Error | null, address: string, family: number) => void,
) => void;

/** Addresses only: nothing on the way of a PING may wait for a name server. */
const numericOnly: Lookup = (name, _options, callback) => {
  const family = isIP(name);
  const error = family === 0 ? new Error(`${JSON.stringify(name)} is not an IP address`) : null;
  callback(error, name, family);
};
