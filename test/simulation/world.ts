import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import type { AggregateStatus, Connection, ConnectionRef, TunnelEntry } from '../../shared/domain/connection.ts';
import type { ConnectionStore } from '../../shared/ports/connection-store.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';
import { CountingMeter } from '../support/counting-meter.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { type Faults, NO_FAULTS } from './faults.ts';
import { Random } from './random.ts';

/** A write that changed the Connection, as the API server saw it. */
export type Write = {
  readonly atMs: number;
  readonly by: string;
  readonly uid: string;
  readonly tunnel?: TunnelEntry;
  readonly removed?: string;
  readonly aggregate?: AggregateStatus;
};

export const REF: ConnectionRef = { namespace: 'sim', name: 'gw-sim' };

/** The clock of the simulation, and the error of the wall clocks of its processes. */
export class SimulationClock extends VirtualClock {
  wallClockErrorMs = 0;
}

/** What all processes of one simulation share: time, chance, bus, API, and what is noted of them. */
export class World {
  readonly clock = new SimulationClock();
  readonly random: Random;
  readonly broker = new EmbeddedBroker({ clock: this.clock });
  readonly bus = new EmbeddedBus(this.broker, this.clock);
  readonly state = new EmbeddedStateStore();
  readonly kubernetes: EmbeddedKubernetes;
  readonly writes: Write[] = [];
  /** Connections created or mended, which the aggregate answers too. */
  ensured = 0;
  readonly traceLines: string[] = [];
  faults: Faults = NO_FAULTS;
  readonly #linksDown = new Set<string>();
  #uids = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.kubernetes = new EmbeddedKubernetes({ clock: this.clock, newUid: () => `uid-${++this.#uids}` });
  }

  connection(): Connection | undefined {
    return this.kubernetes.get(REF);
  }

  isLinkUp(interfaceId: string): boolean {
    return !this.#linksDown.has(interfaceId);
  }

  toggleLink(interfaceId: string): void {
    if (!this.#linksDown.delete(interfaceId)) this.#linksDown.add(interfaceId);
    this.trace(`link ${interfaceId} ${this.isLinkUp(interfaceId) ? 'up' : 'down'}`);
  }

  trace(line: string): void {
    this.traceLines.push(`${(this.clock.monotonicMs() / 1_000).toFixed(3)}s ${line}`);
  }

  /** The API as one function sees it; what changes the Connection is noted. */
  storeOf(by: string): ConnectionStore {
    const store = new EmbeddedConnectionStore(this.kubernetes);
    const noted = async (write: () => Promise<Connection>, what: Pick<Write, 'tunnel' | 'removed' | 'aggregate'>) => {
      const before = this.connection()?.metadata.resourceVersion;
      const connection = await write();
      if (connection.metadata.resourceVersion !== before) {
        this.writes.push({ atMs: this.clock.monotonicMs(), by, uid: connection.metadata.uid, ...what });
        this.trace(`${by} writes ${JSON.stringify(what.tunnel ?? what.removed ?? what.aggregate?.value)}`);
      }
      return connection;
    };
    return {
      get: (...call) => store.get(...call),
      ensure: async (...call) => {
        const result = await store.ensure(...call);
        if (result.change !== 'none') this.ensured++;
        return result;
      },
      applyTunnel: (ref, tunnel, options) => noted(() => store.applyTunnel(ref, tunnel, options), { tunnel }),
      removeTunnel: (ref, removed, options) => noted(() => store.removeTunnel(ref, removed, options), { removed }),
      applyAggregate: (ref, aggregate, options) =>
        noted(() => store.applyAggregate(ref, aggregate, options), { aggregate }),
    };
  }

  readonly meter = new CountingMeter();

  readonly log: Logger = {
    debug() {},
    info() {},
    warn: (fields, message) => this.trace(`warn ${message} ${JSON.stringify(fields, errorsAsText)}`),
    error: (fields, message) => this.trace(`ERROR ${message} ${JSON.stringify(fields, errorsAsText)}`),
    child: () => this.log,
  };
}

function errorsAsText(_key: string, value: unknown): unknown {
  return value instanceof Error ? `${value.name}: ${value.message}` : value;
}
