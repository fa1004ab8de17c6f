/**
 * The network of the embedded lab: a UDP relay a tunnel on 127.0.0.1, no root needed.
 *
 *     gateway (server)  ⇄  relay socket "server"  ⇄  relay socket "client"  ⇄  gateway (client)
 *     local               its peer                   its peer                   local
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { type GatewayMode, interfaceIdOf, MAX_TUNNELS } from '../../shared/domain/tunnel-interface.ts';
import type { Clock, Timer } from '../../shared/ports/clock.ts';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';
import { releaseUdpPort, reserveUdpPort } from './udp-port.ts';

/** What one gateway needs to know of a tunnel. */
export type RelayTunnel = { readonly interfaceId: string; readonly local: Endpoint; readonly peer: Endpoint };

/** What happens to datagrams of one direction. */
export type Impairment = {
  /** @defaultValue 0 */
  readonly delayMs?: number;
  /** Part of the datagrams that is dropped, 0 … 1. @defaultValue 0 */
  readonly lossRate?: number;
  /** Further copies of each datagram. @defaultValue 0 */
  readonly duplicates?: number;
};

/** Datagrams of one tunnel, both directions. */
export type RelayCounts = {
  readonly forwarded: number;
  /** Dropped by {@link RelayNetwork.cut}. */
  readonly cut: number;
  /** Dropped by an impairment. */
  readonly lost: number;
  /** Dropped because they came from elsewhere than the tunnel's gateway. */
  readonly strangers: number;
  /** Dropped because {@link MAX_DELAYED} others were waiting. */
  readonly overflowed: number;
  /** Not sent: the system refused. */
  readonly failed: number;
};

export type RelayOptions = {
  /** 1 … 64. */
  readonly tunnels: number;
  readonly clock: Clock;
  /** Decides about losses: uniform in [0, 1). @defaultValue `Math.random` */
  readonly random?: () => number;
};

/** Datagrams that a tunnel holds back at most, so that a delay cannot eat the memory. */
export const MAX_DELAYED = 4_096;

const HOST = '127.0.0.1';
const OTHER: Readonly<Record<GatewayMode, GatewayMode>> = { server: 'client', client: 'server' };

/** @throws RangeError unless the number of tunnels is 1 … 64; Error with a system code if no socket can be had */
export async function openRelayNetwork(options: RelayOptions): Promise<RelayNetwork> {
  const network = new RelayNetwork(options);
  try {
    await network.scale(options.tunnels);
  } catch (error) {
    await network.close();
    throw error;
  }
  return network;
}

/** All tunnels between the two gateways; `await using` closes it. */
export class RelayNetwork implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #tunnels = new Map<string, Tunnel>();

  /** @see {@link openRelayNetwork} */
  constructor({ clock, random = Math.random }: Pick<RelayOptions, 'clock' | 'random'>) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Where a side's gateway binds, and whom it talks to, tunnel by tunnel. Both stay the same for a tunnel's life. */
  tunnels(side: GatewayMode): readonly RelayTunnel[] {
    return [...this.#tunnels.values()].map((tunnel) => tunnel.as(side));
  }

  /** Opens or closes tunnels until there are this many; the others do not notice. */
  async scale(tunnels: number): Promise<void> {
    if (!Number.isInteger(tunnels) || tunnels < 1 || tunnels > MAX_TUNNELS) {
      throw new RangeError(`tunnels ${tunnels}: want an integer from 1 to ${MAX_TUNNELS}`);
    }
    for (let index = this.#tunnels.size; index < tunnels; index++) {
      const interfaceId = interfaceIdOf(index);
      this.#tunnels.set(interfaceId, await Tunnel.open(interfaceId, this.#clock, this.#random));
    }
    for (let index = this.#tunnels.size - 1; index >= tunnels; index--) {
      const interfaceId = interfaceIdOf(index);
      this.#tunnel(interfaceId).close();
      this.#tunnels.delete(interfaceId);
    }
  }

  /** Drops the tunnel's datagrams both ways, those under way included, until {@link restore}. */
  cut(interfaceId: string): void {
    this.#tunnel(interfaceId).isCut = true;
  }

  restore(interfaceId: string): void {
    this.#tunnel(interfaceId).isCut = false;
  }

  /** Sets what happens to datagrams that `from` sends; `{}` ends it. */
  impair(interfaceId: string, from: GatewayMode, impairment: Impairment): void {
    this.#tunnel(interfaceId).impairments[from] = impairment;
  }

  counts(interfaceId: string): RelayCounts {
    return { ...this.#tunnel(interfaceId).counts };
  }

  /** Idempotent. */
  async close(): Promise<void> {
    for (const tunnel of this.#tunnels.values()) tunnel.close();
    this.#tunnels.clear();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #tunnel(interfaceId: string): Tunnel {
    const tunnel = this.#tunnels.get(interfaceId);
    if (tunnel === undefined) {
      throw new Error(`no tunnel "${interfaceId}": there are ${[...this.#tunnels.keys()].join(', ') || 'none'}`);
    }
    return tunnel;
  }
}

type PerSide<T> = Record<GatewayMode, T>;
type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

class Tunnel {
  isCut = false;
  readonly impairments: PerSide<Impairment> = { server: {}, client: {} };
  readonly counts: Mutable<RelayCounts> = { forwarded: 0, cut: 0, lost: 0, strangers: 0, overflowed: 0, failed: 0 };
  readonly #interfaceId: string;
  readonly #sockets: PerSide<Socket>;
  readonly #gateways: PerSide<Endpoint>;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #delayed = new Set<Timer>();
  #isClosed = false;

  static async open(interfaceId: string, clock: Clock, random: () => number): Promise<Tunnel> {
    const gateways = { server: await reserveUdpPort(HOST), client: await reserveUdpPort(HOST) };
    const server = await openSocket();
    try {
      return new Tunnel(interfaceId, { server, client: await openSocket() }, gateways, clock, random);
    } catch (error) {
      server.close();
      throw error;
    }
  }

  private constructor(
    interfaceId: string,
    sockets: PerSide<Socket>,
    gateways: PerSide<Endpoint>,
    clock: Clock,
    random: () => number,
  ) {
    this.#interfaceId = interfaceId;
    this.#sockets = sockets;
    this.#gateways = gateways;
    this.#clock = clock;
    this.#random = random;
    for (const side of ['server', 'client'] as const) {
      sockets[side].on('message', (bytes, { address, port }) => this.#receive(side, bytes, { address, port }));
      sockets[side].on('error', () => this.counts.failed++); // a gateway that is not there: its datagrams are lost, as on a wire
    }
  }

  as(side: GatewayMode): RelayTunnel {
    const { address, port } = this.#sockets[side].address();
    return { interfaceId: this.#interfaceId, local: this.#gateways[side], peer: { address, port } };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const timer of this.#delayed) timer.cancel();
    this.#delayed.clear();
    for (const socket of Object.values(this.#sockets)) socket.close();
    for (const gateway of Object.values(this.#gateways)) releaseUdpPort(gateway);
  }

  #receive(from: GatewayMode, bytes: Uint8Array, source: Endpoint): void {
    const gateway = this.#gateways[from];
    if (source.port !== gateway.port || source.address !== gateway.address) {
      this.counts.strangers++;
      return;
    }
    const { delayMs = 0, lossRate = 0, duplicates = 0 } = this.impairments[from];
    if (lossRate > 0 && this.#random() < lossRate) {
      this.counts.lost++;
      return;
    }
    for (let copy = 0; copy <= duplicates; copy++) {
      if (delayMs > 0) this.#forwardLater(from, bytes, delayMs);
      else this.#forward(from, bytes);
    }
  }

  #forwardLater(from: GatewayMode, bytes: Uint8Array, delayMs: number): void {
    if (this.#delayed.size >= MAX_DELAYED) {
      this.counts.overflowed++;
      return;
    }
    const timer = this.#clock.after(delayMs, () => {
      this.#delayed.delete(timer);
      this.#forward(from, bytes);
    });
    this.#delayed.add(timer);
  }

  #forward(from: GatewayMode, bytes: Uint8Array): void {
    if (this.isCut) {
      this.counts.cut++;
      return;
    }
    const to = OTHER[from];
    const { address, port } = this.#gateways[to];
    this.#sockets[to].send(bytes, port, address, (error) => {
      if (error) this.counts.failed++;
      else this.counts.forwarded++;
    });
  }
}

async function openSocket(): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.bind(0, HOST);
  await once(socket, 'listening'); // rejects on 'error'
  return socket;
}
