import type { Clock } from '../../shared/ports/clock.ts';
import type { DatagramSocket, DatagramSockets, Endpoint } from '../../shared/ports/datagram-socket.ts';

export type Datagram = { readonly bytes: Uint8Array; readonly from: Endpoint; readonly to: Endpoint };

type Receiver = { readonly onMessage: (bytes: Uint8Array, from: Endpoint) => void; readonly host: FakeHost };

/** Datagrams between fake sockets; what becomes of each is up to the test. */
export class FakeNetwork {
  readonly sent: Datagram[] = [];
  /** Delays of the copies that arrive: none means lost. */
  path: (datagram: Datagram) => readonly number[] = () => [0.5];
  /** Error code of a send, as the kernel would refuse it. */
  refusal: (datagram: Datagram) => string | undefined = () => undefined;
  /** Error code of an attempt to open a socket at this endpoint. */
  openFault: (local: Endpoint) => string | undefined = () => undefined;
  opened = 0;
  readonly #clock: Clock;
  readonly #receivers = new Map<string, Receiver>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  host(): FakeHost {
    return new FakeHost(this);
  }

  get openSockets(): number {
    return this.#receivers.size;
  }

  transmit(datagram: Datagram): void {
    const copy = { ...datagram, bytes: new Uint8Array(datagram.bytes) };
    this.sent.push(copy);
    for (const delayMs of this.path(copy)) {
      if (delayMs === 0) this.deliver(copy);
      else this.#clock.after(delayMs, () => this.deliver(copy));
    }
  }

  deliver({ bytes, from, to }: Datagram): void {
    const receiver = this.#receivers.get(keyOf(to));
    receiver?.host.receive(() => receiver.onMessage(new Uint8Array(bytes), from));
  }

  bind(local: Endpoint, receiver: Receiver): void {
    const fault = this.openFault(local) ?? (this.#receivers.has(keyOf(local)) ? 'EADDRINUSE' : undefined);
    if (fault !== undefined) throw Object.assign(new Error(`open ${fault}`), { code: fault });
    this.#receivers.set(keyOf(local), receiver);
    this.opened += 1;
  }

  unbind(local: Endpoint): void {
    this.#receivers.delete(keyOf(local));
  }
}

/** The sockets of one process; a frozen one finds what came meanwhile once it looks. */
export class FakeHost implements DatagramSockets {
  readonly #network: FakeNetwork;
  #isFrozen = false;
  #backlog: (() => void)[] = [];

  constructor(network: FakeNetwork) {
    this.#network = network;
  }

  freeze(): void {
    this.#isFrozen = true;
  }

  receive(read: () => void): void {
    if (this.#isFrozen) this.#backlog.push(read);
    else read();
  }

  async open({ local, onMessage }: Parameters<DatagramSockets['open']>[0]): Promise<DatagramSocket> {
    this.#network.bind(local, { onMessage, host: this });
    let isClosed = false;
    return {
      send: (bytes, to, done) => {
        const datagram = { bytes, from: local, to };
        const code = isClosed ? 'ERR_SOCKET_CLOSED' : this.#network.refusal(datagram);
        if (code === undefined) this.#network.transmit(datagram);
        queueMicrotask(() => done(code));
      },
      close: () => {
        if (!isClosed) this.#network.unbind(local);
        isClosed = true;
      },
    };
  }

  afterBacklog(task: () => void): void {
    this.#isFrozen = false;
    for (const read of this.#backlog.splice(0)) read();
    task();
  }
}

function keyOf({ address, port }: Endpoint): string {
  return `${address}:${port}`;
}
