/**
 * The network of the real lab (root): two network namespaces with WireGuard tunnels between them.
 *
 *     namespace "server"                                            namespace "client"
 *       liqo-tunnel<i> 169.254.18.(4i+1) ═ wireguard-go, UDP 21820+i ═ 169.254.18.(4i+2) liqo-tunnel<i>
 *       underlay 10.18.0.1/30 ───────────────── veth ───────────────── 10.18.0.2/30 underlay
 *       uplink ──┐                                                            ┌── uplink
 *                └── root namespace: `host`, where NATS and the API server ───┘
 *                    listen for both
 */
import { mkdir } from 'node:fs/promises';
import { StartError } from '../../shared/cli/errors.ts';
import {
  derivedTunnel,
  GATEWAY_MODES,
  type GatewayMode,
  interfaceIdOf,
  MAX_TUNNELS,
} from '../../shared/domain/tunnel-interface.ts';
import { type CommandLine, NetworkNamespace, runCommand } from './network-namespace.ts';
import { type Uplink, uplinkCandidates } from './uplink-addresses.ts';
import { createWireguardKeys, startWireguardDevice, type WireguardDevice } from './wireguard-device.ts';
import { requireWireguard } from './wireguard-needs.ts';

export type WireguardNetworkOptions = {
  /** 1 … 64. */
  readonly tunnels: number;
  /** Gets the log of every process, one file each. */
  readonly logFolder: string;
  /** Hears why a tunnel takes longer than usual. */
  readonly onWait?: (why: string) => void;
};

const UNDERLAY = { server: '10.18.0.1', client: '10.18.0.2' } as const;
/** Below what the kernel gives away: each driver has such a port until it is told its own, which may not be another's. */
const FIRST_LISTEN_PORT = 21_820;

/**
 * `cut`: the tunnel's packets vanish on their way, and who sends does not notice. `muted`: the kernel refuses to send
 * into the tunnel (EPERM).
 */
const RULES = `table inet wgk {
  set cut { type inet_service; }
  set muted { type ifname; }
  chain arriving { type filter hook input priority 0; udp dport @cut drop; }
  chain leaving { type filter hook output priority 0; oifname @muted drop; }
  chain losing { type filter hook input priority 1; }
}
`;

/** @throws StartError within seconds that names what this machine lacks or refuses */
export async function startWireguardNetwork(options: WireguardNetworkOptions): Promise<WireguardNetwork> {
  const { tunnels, logFolder } = options;
  await requireWireguard();
  await mkdir(logFolder, { recursive: true });
  await using cleanUp = new AsyncDisposableStack();
  try {
    const server = cleanUp.use(await NetworkNamespace.open('server', `${logFolder}/namespace-server.log`));
    const client = cleanUp.use(await NetworkNamespace.open('client', `${logFolder}/namespace-client.log`));
    const namespaces = { server, client };
    const network = cleanUp.use(new WireguardNetwork(namespaces, await connect(namespaces), options));
    await network.scale(tunnels);
    cleanUp.move(); // from here on the network's own dispose ends its namespaces
    return network;
  } catch (error) {
    if (error instanceof RangeError) throw error;
    const hint = 'In a container it needs --privileged, or CAP_SYS_ADMIN, CAP_NET_ADMIN and /dev/net/tun.';
    throw new StartError(`the network of WireGuard tunnels does not start: ${(error as Error).message}\n${hint}`, {
      cause: error,
    });
  }
}

/** Both namespaces and all tunnels; `await using` ends it. */
export class WireguardNetwork implements AsyncDisposable {
  /** Address in the root namespace that both sides reach: what serves both listens here. */
  readonly host: string;
  readonly #namespaces: Readonly<Record<GatewayMode, NetworkNamespace>>;
  readonly #uplinks: Readonly<Record<GatewayMode, Uplink>>;
  readonly #options: Omit<WireguardNetworkOptions, 'tunnels'>;
  /** Rules of nft by tunnel, in the namespace of who receives. */
  readonly #losses = { server: new Map<string, string>(), client: new Map<string, string>() };
  /** In the order of their indexes only by chance. */
  readonly #tunnels = new Map<string, readonly WireguardDevice[]>();

  /** @see {@link startWireguardNetwork} */
  constructor(
    namespaces: Readonly<Record<GatewayMode, NetworkNamespace>>,
    uplinks: Readonly<Record<GatewayMode, Uplink>>,
    options: Omit<WireguardNetworkOptions, 'tunnels'>,
  ) {
    this.host = uplinks.server.rootAddress;
    this.#namespaces = namespaces;
    this.#uplinks = uplinks;
    this.#options = options;
  }

  /** Names of its interfaces in the root namespace. */
  get rootInterfaces(): string[] {
    return Object.values(this.#uplinks).map(({ rootInterface }) => rootInterface);
  }

  /** Address in a side's namespace that the root namespace reaches. */
  address(side: GatewayMode): string {
    return this.#uplinks[side].address;
  }

  /** Adds or removes tunnels until there are this many, counted from index 0. */
  async scale(tunnels: number): Promise<void> {
    if (!Number.isInteger(tunnels) || tunnels < 1 || tunnels > MAX_TUNNELS) {
      throw new RangeError(`tunnels ${tunnels}: want an integer from 1 to ${MAX_TUNNELS}`);
    }
    // All have ended before the first failure is told: what is still starting then, nobody would end.
    const changes = await Promise.allSettled(
      Array.from({ length: MAX_TUNNELS }, async (_, index) => {
        const exists = this.#tunnels.has(interfaceIdOf(index));
        if (index < tunnels && !exists) await this.addTunnel(index);
        if (index >= tunnels && exists) await this.removeTunnel(interfaceIdOf(index));
      }),
    );
    for (const change of changes) if (change.status === 'rejected') throw change.reason;
  }

  /** Adds the tunnel with this index (0 … 63) on both sides, with new keys. */
  async addTunnel(index: number): Promise<void> {
    const interfaceId = interfaceIdOf(index);
    if (this.#tunnels.has(interfaceId)) throw new Error(`tunnel "${interfaceId}" exists already`);
    const keys = { server: createWireguardKeys(), client: createWireguardKeys() };
    const listenPort = FIRST_LISTEN_PORT + index;
    const { logFolder, onWait } = this.#options;
    const devices = await Promise.allSettled(
      GATEWAY_MODES.map((side) => {
        const other = side === 'server' ? 'client' : 'server';
        return startWireguardDevice(this.#namespaces[side], {
          ...derivedTunnel(index, side),
          privateKey: keys[side].privateKey,
          peerPublicKey: keys[other].publicKey,
          peerEndpoint: `${UNDERLAY[other]}:${listenPort}`,
          listenPort,
          logFile: `${logFolder}/wireguard-go-${side}-${interfaceId}.log`,
          ...(onWait && { onWait }),
        });
      }),
    );
    const started = devices.flatMap((device) => (device.status === 'fulfilled' ? [device.value] : []));
    this.#tunnels.set(interfaceId, started);
    const failed = devices.find((device) => device.status === 'rejected');
    if (failed === undefined) return;
    await this.removeTunnel(interfaceId);
    throw failed.reason;
  }

  /** Takes the interface away on both sides. */
  async removeTunnel(interfaceId: string): Promise<void> {
    await this.lose(interfaceId, 0);
    const devices = this.#devices(interfaceId);
    this.#tunnels.delete(interfaceId);
    await Promise.all(devices.map((device) => device[Symbol.asyncDispose]()));
  }

  /** Drops the tunnel's packets between the sides, both ways; the interfaces stay, and sending succeeds. */
  async cut(interfaceId: string): Promise<void> {
    const [device] = this.#devices(interfaceId);
    await this.#filter(`add element inet wgk cut { ${device?.listenPort} }`);
  }

  /** Refuses to send into the tunnel, on both sides: the sender gets EPERM. */
  async cutInside(interfaceId: string): Promise<void> {
    this.#devices(interfaceId);
    await this.#filter(`add element inet wgk muted { ${interfaceId} }`);
  }

  /** Undoes {@link cut} and {@link cutInside}; harmless where there was neither. */
  async restore(interfaceId: string): Promise<void> {
    const [device] = this.#devices(interfaceId);
    // Deleting what is not there is an error, adding what is there is none.
    const elements = [`cut { ${device?.listenPort} }`, `muted { ${interfaceId} }`];
    await this.#filter(
      ['add', 'delete'].flatMap((verb) => elements.map((element) => `${verb} element inet wgk ${element}`)).join('\n'),
    );
  }

  /**
   * Loses a part of the tunnel's packets, each by chance, until it is told another part.
   *
   * @param lossRate - 0 … 1
   * @param from - only those that this side sends; left out: both ways
   */
  async lose(interfaceId: string, lossRate: number, from?: GatewayMode): Promise<void> {
    const [device] = this.#devices(interfaceId);
    for (const side of GATEWAY_MODES) {
      const isMeant = lossRate > 0 && side !== from; // it is who receives that drops them
      const perMille = Math.round(1_000 * lossRate);
      const some = perMille < 1_000 ? `numgen random mod 1000 < ${perMille}` : ''; // nft refuses what is always so
      const rule = `udp dport ${device?.listenPort} ${some} drop`;
      if (isMeant) this.#losses[side].set(interfaceId, rule);
      else this.#losses[side].delete(interfaceId);
      const rules = [...this.#losses[side].values()].map((one) => `add rule inet wgk losing ${one}`);
      await this.exec(side, 'nft', ['-f', '-'], ['flush chain inet wgk losing', ...rules].join('\n'));
    }
  }

  /**
   * Runs a program to its end in a side's namespace.
   *
   * @returns its standard output
   * @throws Error with its standard error if it fails or takes too long
   */
  exec(side: GatewayMode, command: string, args: readonly string[], input?: string): Promise<string> {
    return this.#namespaces[side].exec(command, args, input);
  }

  /** The command line that starts a program in a side's namespace. */
  commandLine(side: GatewayMode, command: string, args: readonly string[]): CommandLine {
    return this.#namespaces[side].commandLine(command, args);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#tunnels.keys()].map((interfaceId) => this.removeTunnel(interfaceId)));
    // The kernel would do it as well, a moment later.
    await Promise.allSettled(GATEWAY_MODES.map((side) => this.exec(side, 'ip', ['link', 'delete', 'uplink'])));
    await Promise.all(Object.values(this.#namespaces).map((namespace) => namespace[Symbol.asyncDispose]()));
  }

  #devices(interfaceId: string): readonly WireguardDevice[] {
    const devices = this.#tunnels.get(interfaceId);
    if (devices === undefined) {
      throw new Error(`no tunnel "${interfaceId}": there are ${[...this.#tunnels.keys()].join(', ') || 'none'}`);
    }
    return devices;
  }

  async #filter(commands: string): Promise<void> {
    await Promise.all(GATEWAY_MODES.map((side) => this.exec(side, 'nft', ['-f', '-'], commands)));
  }
}

/** Lays the cables: between the namespaces, and from each to the root namespace. */
async function connect(
  namespaces: Readonly<Record<GatewayMode, NetworkNamespace>>,
): Promise<Readonly<Record<GatewayMode, Uplink>>> {
  const { server, client } = namespaces;
  const uplinks = { server: await addUplink(server), client: await addUplink(client) };
  await server.exec('ip', [...'link add underlay type veth peer name underlay netns'.split(' '), `${client.pid}`]);
  for (const side of GATEWAY_MODES) {
    const { rootInterface, rootAddress, address } = uplinks[side];
    await runCommand(
      { command: 'ip', args: ['-batch', '-'] },
      `address add ${rootAddress}/30 dev ${rootInterface}
link set ${rootInterface} up
`,
    );
    await namespaces[side].exec(
      'ip',
      ['-batch', '-'],
      `address add ${UNDERLAY[side]}/30 dev underlay
link set underlay up
address add ${address}/30 dev uplink
link set uplink up
route replace ${uplinks.server.rootAddress}/32 via ${rootAddress} dev uplink
`,
    );
    await namespaces[side].exec('nft', ['-f', '-'], RULES);
  }
  return uplinks;
}

/** A cable whose name, and so addresses, no other lab of this machine has, though it starts at the same moment. */
async function addUplink(namespace: NetworkNamespace): Promise<Uplink> {
  for (const uplink of uplinkCandidates()) {
    const args = ['link', 'add', uplink.rootInterface, ...'type veth peer name uplink netns'.split(' ')];
    try {
      await runCommand({ command: 'ip', args: [...args, `${namespace.pid}`] });
      return uplink;
    } catch (error) {
      if (!/File exists/.test((error as Error).message)) throw error;
    }
  }
  throw new Error('198.18.0.0/15 has no free /30 for the lab');
}
