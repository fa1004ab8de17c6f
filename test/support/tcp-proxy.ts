import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP relay in front of a server, which a test can cut, blackhole and heal. Loopback only. */
export class TcpProxy implements AsyncDisposable {
  readonly port: number;
  /** Connections that were accepted since the start. */
  accepted = 0;
  readonly #server: Server;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #clients = new Set<Socket>();
  readonly #servers = new Set<Socket>();
  #mode: 'relay' | 'refuse' | 'blackhole' = 'relay';

  private constructor(server: Server, port: number, target: { readonly host: string; readonly port: number }) {
    this.#server = server;
    this.port = port;
    this.#target = target;
    server.on('connection', (client) => this.#relay(client));
  }

  static async start(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TcpProxy(server, (server.address() as { port: number }).port, target);
  }

  /** Connections that clients have open now. */
  get open(): number {
    return this.#clients.size;
  }

  /** Closes all connections; new ones are closed at once until {@link heal}. */
  cut(): void {
    this.#mode = 'refuse';
    this.closeAll();
  }

  /** Closes all connections; new ones work. */
  closeAll(): void {
    for (const socket of this.#all()) socket.destroy();
  }

  /** From now on nothing passes, and neither side hears of the other's end, as behind a firewall that drops. */
  blackhole(): void {
    this.#mode = 'blackhole';
    for (const socket of this.#all()) socket.unpipe().pause();
  }

  /** What was open in a blackhole stays dead; new connections work. */
  heal(): void {
    this.#mode = 'relay';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#mode = 'refuse';
    this.#server.close();
    this.closeAll();
    if (this.#server.listening || this.open > 0) await once(this.#server, 'close');
  }

  #all(): Socket[] {
    return [...this.#clients, ...this.#servers];
  }

  #relay(client: Socket): void {
    if (this.#mode === 'refuse') {
      client.destroy();
      return;
    }
    this.accepted += 1;
    const server = connect(this.#target);
    const isDead = this.#mode === 'blackhole';
    this.#couple(client, server, this.#clients);
    this.#couple(server, client, this.#servers);
    if (isDead) client.pause();
    else client.pipe(server).pipe(client);
  }

  #couple(socket: Socket, other: Socket, sockets: Set<Socket>): void {
    sockets.add(socket);
    socket.on('error', () => {}); // close follows
    socket.on('close', () => {
      sockets.delete(socket);
      if (this.#mode !== 'blackhole') other.destroy();
    });
  }
}
