import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';

/** A TCP relay that holds back what clients send: each request, and each handshake, takes that much longer. */
export class SlowLink implements AsyncDisposable {
  /** From now on; what is under way is not changed. */
  delayMs = 0;
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, target: { readonly host: string; readonly port: number }) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (client) => this.#relay(client, connect(target)));
  }

  /** Listens on a free port of the target's own address, so that the target's certificate holds. */
  static async start(target: { readonly host: string; readonly port: number }): Promise<SlowLink> {
    const server = createServer().listen(0, target.host);
    await once(server, 'listening');
    return new SlowLink(server, target);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    if (this.#server.listening || this.#sockets.size > 0) await once(this.#server, 'close');
  }

  #relay(client: Socket, target: Socket): void {
    for (const [socket, other] of [
      [client, target],
      [target, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => {}); // close follows
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    const hold = new Transform({
      transform: (chunk, _encoding, pass) => {
        setTimeout(() => pass(null, chunk), this.delayMs);
      },
    });
    client.pipe(hold).pipe(target);
    target.pipe(client);
  }
}
