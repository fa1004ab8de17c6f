import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP relay in front of a server, which a test can cut, blackhole and heal. Loopback only. */
export class TcpProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #mode: 'relay' | 'refuse' | 'blackhole' = 'relay';

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  static async start(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new TcpProxy(server, (server.address() as { port: number }).port);
    server.on('connection', (client) => proxy.#relay(client, target));
    return proxy;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Closes all connections; new ones are closed at once until {@link heal}. */
  cut(): void {
    this.#mode = 'refuse';
    this.closeAll();
  }

  /** Closes all connections; new ones work. */
  closeAll(): void {
    for (const [client, server] of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }

  /** From now on nothing passes and nothing closes, as behind a firewall that drops. */
  blackhole(): void {
    this.#mode = 'blackhole';
    for (const pair of this.#pairs) for (const socket of pair) socket.unpipe().pause();
  }

  /** What was open in a blackhole stays dead; new connections work. */
  heal(): void {
    this.#mode = 'relay';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.closeAll();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #relay(client: Socket, target: { readonly host: string; readonly port: number }): void {
    if (this.#mode === 'refuse') return void client.destroy();
    const server = connect(target);
    const pair = [client, server] as const;
    this.#pairs.add(pair);
    for (const [from, to] of [pair, [server, client] as const]) {
      from.on('error', () => {}); // followed by close
      from.on('close', () => {
        if (this.#mode !== 'blackhole') to.destroy();
        this.#pairs.delete(pair);
      });
      if (this.#mode === 'relay') from.pipe(to);
    }
    if (this.#mode === 'blackhole') client.pause();
  }
}
