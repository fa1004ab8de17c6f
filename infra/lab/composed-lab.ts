import { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { StartError } from '../../shared/cli/errors.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import { type GatewayMode, interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import type { LabImpairment, ScenarioLab } from './lab.ts';
import { tenantConnections } from './lab-tenant.ts';
import { runCommand } from './network-namespace.ts';

/** As infra/compose/gateway.sh gives them out. */
const FIRST_LISTEN_PORT = 51_820;
const TABLE = 'inet wgk_scenario';

/** Part of the datagrams of a tunnel that is dropped, by who sent them. */
type Loss = Readonly<Record<GatewayMode, number>>;

/**
 * The lab of docker-compose.yml, from within the network of its server's gateway: tunnels can be cut and lose
 * datagrams there. What happens to containers is Docker's business, and refused here.
 */
export class ComposedLab implements ScenarioLab, AsyncDisposable {
  readonly #client: KubernetesClient;
  readonly #tunnels: readonly string[];
  readonly #losses = new Map<string, Loss>();
  readonly #cuts = new Set<string>();

  private constructor(client: KubernetesClient, tunnels: number) {
    this.#client = client;
    this.#tunnels = Array.from({ length: tunnels }, (_, index) => interfaceIdOf(index));
  }

  /** @throws Error where packets cannot be filtered here (no NET_ADMIN, no nft), or nothing says where the API server is */
  static async open(tunnels: number): Promise<ComposedLab> {
    const lab = new ComposedLab(await KubernetesClient.connect({ clock: systemClock }), tunnels);
    await lab.#filter();
    return lab;
  }

  connections(): Promise<readonly Connection[]> {
    return tenantConnections(this.#client);
  }

  async cut(interfaceId: string): Promise<void> {
    this.#cuts.add(interfaceId);
    await this.#filter();
  }

  async impair(interfaceId: string, { lossRate = 0, delayMs = 0, from }: LabImpairment): Promise<void> {
    if (delayMs > 0) throw refused('a delay');
    const rateOf = (side: GatewayMode) => (from === undefined || from === side ? lossRate : 0);
    this.#losses.set(interfaceId, { server: rateOf('server'), client: rateOf('client') });
    await this.#filter();
  }

  async restore(interfaceId: string): Promise<void> {
    this.#cuts.delete(interfaceId);
    this.#losses.delete(interfaceId);
    await this.#filter();
  }

  async scale(): Promise<void> {
    throw refused('another number of tunnels');
  }

  async crash(): Promise<void> {
    throw refused('the death of a replica');
  }

  async restartGateway(): Promise<void> {
    throw refused('the death of a gateway');
  }

  async setNats(): Promise<void> {
    throw refused('an outage of NATS');
  }

  async slowApi(): Promise<void> {
    throw refused('a slow API server');
  }

  async stepClock(): Promise<void> {
    throw refused('another time');
  }

  /** Nothing is dropped any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    await runCommand({ command: 'nft', args: ['delete', 'table', ...TABLE.split(' ')] });
  }

  /** All rules anew, in one transaction. */
  async #filter(): Promise<void> {
    const rules = { arriving: [] as string[], leaving: [] as string[] };
    for (const [index, interfaceId] of this.#tunnels.entries()) {
      const isCut = this.#cuts.has(interfaceId);
      const { server = 0, client = 0 } = this.#losses.get(interfaceId) ?? {};
      rules.arriving.push(...drops(FIRST_LISTEN_PORT + index, isCut ? 1 : client));
      rules.leaving.push(...drops(FIRST_LISTEN_PORT + index, isCut ? 1 : server));
    }
    const text = `add table ${TABLE}
delete table ${TABLE}
table ${TABLE} {
  chain arriving { type filter hook input priority 0; ${rules.arriving.join('')} }
  chain leaving { type filter hook output priority 0; ${rules.leaving.join('')} }
}
`;
    await runCommand({ command: 'nft', args: ['-f', '-'] }, text);
  }
}

/** Both ends of a tunnel have the same port. */
function drops(port: number, rate: number): string[] {
  const perMille = Math.round(1_000 * rate);
  if (perMille === 0) return [];
  return [`udp dport ${port} ${perMille < 1_000 ? `numgen random mod 1000 < ${perMille} ` : ''}drop;`];
}

function refused(what: string): StartError {
  return new StartError(`${what} is nothing that this network can make: docker compose can, or the lab of npm start`);
}
