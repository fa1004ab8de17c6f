import { engineOn } from '../../shared/cli/ping-engine.ts';
import { DEFAULT_PING_SETTINGS, type PingSettings } from '../../shared/domain/ping-settings.ts';
import type { Sighting } from '../../shared/domain/sighting.ts';
import { interfaceIdOf, type TunnelEndpoint } from '../../shared/domain/tunnel-interface.ts';
import type { Clock, Timer } from '../../shared/ports/clock.ts';
import type { EngineSnapshot, PingEngine } from '../../shared/ports/ping-engine.ts';
import { FakeNetwork } from './fake-network.ts';
import { VirtualClock } from './virtual-clock.ts';

export const PORT = 12_345;
export const OUR_SENDER = '0a1b2c3d';

/** The index-th tunnel from our side: 10.0.<index>.1 to 10.0.<index>.2. */
export function tunnelAt(index: number): TunnelEndpoint {
  const at = (host: number) => ({ address: `10.0.${index}.${host}`, port: PORT });
  return { interfaceId: interfaceIdOf(index), local: at(1), peer: at(2) };
}

export function mirrored({ interfaceId, local, peer }: TunnelEndpoint): TunnelEndpoint {
  return { interfaceId, local: peer, peer: local };
}

/** A clock that shows time going by without letting anything run: a process that was stopped. */
class StoppableClock implements Clock {
  readonly #inner: VirtualClock;
  #skewMs = 0;

  constructor(inner: VirtualClock) {
    this.#inner = inner;
  }

  stop(durationMs: number): void {
    this.#skewMs += durationMs;
  }

  monotonicMs(): number {
    return this.#inner.monotonicMs() + this.#skewMs;
  }

  unixMs(): number {
    return this.#inner.unixMs() + this.#skewMs;
  }

  after(delayMs: number, task: () => void): Timer {
    return this.#inner.after(delayMs, task);
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return this.#inner.sleep(delayMs, signal);
  }
}

type WorldOptions = Partial<PingSettings> & {
  readonly tunnels?: number;
  readonly suspectIntervalMs?: number;
  /** Sets the network up before the engine opens its sockets. */
  readonly prepare?: (network: FakeNetwork) => void;
};

/** One engine on a virtual clock and a fake network. */
export class EngineWorld {
  readonly clock = new VirtualClock();
  readonly network = new FakeNetwork(this.clock);
  readonly sightings: Sighting[] = [];
  snapshot: EngineSnapshot | undefined;
  readonly host = this.network.host();
  readonly #ownClock = new StoppableClock(this.clock);
  readonly engine: PingEngine;

  constructor({ tunnels = 1, suspectIntervalMs, prepare, ...settings }: WorldOptions = {}) {
    prepare?.(this.network);
    this.engine = engineOn({ sockets: this.host, clock: this.#ownClock })(
      {
        tunnels: Array.from({ length: tunnels }, (_, index) => tunnelAt(index)),
        settings: { ...DEFAULT_PING_SETTINGS, ...settings },
        sender: OUR_SENDER,
        batchMs: 0,
        ...(suspectIntervalMs === undefined ? {} : { suspectIntervalMs }),
      },
      (report) => {
        this.sightings.push(...report.sightings);
        this.snapshot = report.snapshot ?? this.snapshot;
      },
    );
  }

  of(index: number): Sighting[] {
    return this.sightings.filter(({ interfaceId }) => interfaceId === interfaceIdOf(index));
  }

  last(index = 0): Sighting | undefined {
    return this.of(index).at(-1);
  }

  /** Datagrams from us to the peer of the index-th tunnel. */
  sentTo(index: number): number {
    return this.network.sent.filter(({ to }) => to.address === tunnelAt(index).peer.address).length;
  }

  /** Runs on for a snapshot, and gives the counts of dropped datagrams by reason. */
  async dropped(): Promise<Readonly<Record<string, number>>> {
    await this.clock.advance(1_001);
    return this.snapshot?.dropped ?? {};
  }

  /** As SIGSTOP and SIGCONT do: nothing runs for `durationMs`, datagrams of that time wait in the sockets. */
  stop(durationMs: number): void {
    this.host.freeze();
    this.#ownClock.stop(durationMs);
  }
}
