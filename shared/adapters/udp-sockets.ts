import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIP } from 'node:net';
import type { DatagramSocket, DatagramSockets, Endpoint } from '../ports/datagram-socket.ts';

/** Turns of the event loop that a backlog may take: each reads up to 32 datagrams a socket, more than its buffer holds. */
const MAX_BACKLOG_TURNS = 32;

/** Room for what comes while this process does not run; the kernel gives as much of it as it may (rmem_max). */
const PEER_BUFFER_BYTES = 1_048_576;

/** Room for a few datagrams of strangers: a flood of theirs is dropped by the kernel. */
const STRAY_BUFFER_BYTES = 16_384;

type OpenOptions = Parameters<DatagramSockets['open']>[0];

/**
 * UDP of Node, two sockets a tunnel. One is connected to the peer: the kernel finds the route once and hands it
 * nothing but what came from the peer's port. The other has the rest of what comes to the same port, so that strangers
 * are counted and a peer that sends from another port is answered.
 */
export class UdpSockets implements DatagramSockets {
  #received = 0;

  async open({ local, peer, onMessage, onError }: OpenOptions): Promise<DatagramSocket> {
    await assertFree(local);
    const receive = (bytes: Uint8Array, from: RemoteInfo) => {
      this.#received += 1;
      onMessage(bytes, from);
    };
    const fail = (error: NodeJS.ErrnoException) => onError(codeOf(error));
    const connected = newSocket(local, true);
    const stray = newSocket(local, true);
    try {
      await bind(connected, local);
      await connect(connected, peer);
      await bind(stray, local);
      connected.setRecvBufferSize(PEER_BUFFER_BYTES);
      stray.setRecvBufferSize(STRAY_BUFFER_BYTES);
    } catch (error) {
      await Promise.all([closeSocket(connected), closeSocket(stray)]);
      throw error;
    }
    for (const socket of [connected, stray]) socket.on('error', fail).on('message', receive);
    return new TunnelSocket(connected, stray, peer);
  }

  afterBacklog(task: () => void): void {
    let seen = this.#received;
    let turns = 0;
    const turn = () => {
      turns += 1;
      if (this.#received === seen || turns >= MAX_BACKLOG_TURNS) {
        task();
      } else {
        seen = this.#received;
        setImmediate(turn);
      }
    };
    setImmediate(turn); // after the sockets have had their turn
  }
}

class TunnelSocket implements DatagramSocket {
  readonly #connected: Socket;
  readonly #stray: Socket;
  readonly #peer: Endpoint;
  #isClosed = false;

  constructor(connected: Socket, stray: Socket, peer: Endpoint) {
    this.#connected = connected;
    this.#stray = stray;
    this.#peer = peer;
  }

  send(bytes: Uint8Array, to: Endpoint, done: (errorCode: string | undefined) => void): void {
    if (this.#isClosed) {
      done('ERR_SOCKET_CLOSED');
      return;
    }
    if (to.port !== this.#peer.port || to.address !== this.#peer.address) {
      this.#stray.send(bytes, to.port, to.address, (error) => done(error ? codeOf(error) : undefined));
      return;
    }
    this.#connected.send(bytes, (error) => {
      if (error === null) done(undefined);
      else if (codeOf(error) === 'ECONNREFUSED') this.#sendAgain(bytes, done);
      else done(codeOf(error));
    });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connected.close();
    this.#stray.close();
  }

  /** The kernel reports on an earlier datagram that the peer's port was closed, and has not sent this one. */
  #sendAgain(bytes: Uint8Array, done: (errorCode: string | undefined) => void): void {
    if (this.#isClosed) done('ERR_SOCKET_CLOSED');
    else this.#connected.send(bytes, (error) => done(error ? codeOf(error) : undefined));
  }
}

/** Fails with EADDRINUSE if anybody has the port, even one that would share it: two keepalives must not. */
async function assertFree(local: Endpoint): Promise<void> {
  const socket = newSocket(local, false);
  try {
    await bind(socket, local);
  } finally {
    await closeSocket(socket);
  }
}

function newSocket({ address }: Endpoint, reuseAddr: boolean): Socket {
  const socket = createSocket({ type: isIP(address) === 6 ? 'udp6' : 'udp4', lookup: numericOnly, reuseAddr });
  return socket.on('error', () => {}); // an error that nobody waits for must not end the process
}

async function bind(socket: Socket, { address, port }: Endpoint): Promise<void> {
  const listening = once(socket, 'listening'); // may come before bind returns, as numericOnly does
  socket.bind({ address, port, exclusive: true });
  await listening;
}

async function connect(socket: Socket, { address, port }: Endpoint): Promise<void> {
  const connected = once(socket, 'connect');
  socket.connect(port, address);
  await connected;
}

function closeSocket(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.close(resolve));
}

function codeOf(error: NodeJS.ErrnoException): string {
  return error.code ?? 'EUNKNOWN';
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
