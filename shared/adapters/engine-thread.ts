import { Worker } from 'node:worker_threads';
import { packSightings, type SightingBatch, unpackSightings } from '../domain/sighting-batch.ts';
import type { TunnelEndpoint } from '../domain/tunnel-interface.ts';
import type { EngineOptions, EngineReport, EngineSnapshot, PingEngine, StartEngine } from '../ports/ping-engine.ts';

/** What the engine's thread is told. */
export type EngineCommand =
  | { readonly kind: 'tunnels'; readonly tunnels: readonly TunnelEndpoint[] }
  | { readonly kind: 'stop' };

/** What it tells. */
export type EngineMessage = { readonly batch: SightingBatch; readonly snapshot?: EngineSnapshot };

/** To post: the batch changes hands, it is not copied. */
export function engineMessageOf({ sightings, snapshot }: EngineReport): [EngineMessage, [ArrayBuffer]] {
  const batch = packSightings(sightings);
  return [{ batch, ...(snapshot && { snapshot }) }, [batch.rows.buffer]];
}

/**
 * The engine in a thread of its own: whatever keeps this one busy (JSON, the bus, garbage collection) delays no PING
 * and lengthens no round trip.
 *
 * @param entry - module that runs the engine with {@link EngineOptions} as its worker data, obeys {@link EngineCommand}s
 *   and posts what {@link engineMessageOf} makes of its reports
 */
export function engineThread(entry: URL): StartEngine {
  return (options, onReport) => new EngineThread(entry, options, onReport);
}

/** The engine's garbage is small and dies young: a large nursery would only cost memory. */
const LIMITS = { maxYoungGenerationSizeMb: 12 } as const;

class EngineThread implements PingEngine {
  readonly failed: Promise<never>;
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  #isStopping = false;

  constructor(entry: URL, options: EngineOptions, onReport: (report: EngineReport) => void) {
    this.#worker = new Worker(entry, { workerData: options, name: 'ping-engine', resourceLimits: LIMITS });
    this.#worker.on('message', ({ batch, snapshot }: EngineMessage) => {
      onReport({ sightings: unpackSightings(batch), ...(snapshot && { snapshot }) });
    });
    const { promise: failed, reject } = Promise.withResolvers<never>();
    this.failed = failed;
    failed.catch(() => {}); // who does not ask is not to be killed by it
    this.#worker.once('error', (cause) => reject(new Error('the ping engine died of a bug', { cause })));
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        if (!this.#isStopping) reject(new Error(`the ping engine ended by itself, exit code ${code}`));
        resolve();
      });
    });
  }

  setTunnels(tunnels: readonly TunnelEndpoint[]): void {
    this.#tell({ kind: 'tunnels', tunnels });
  }

  stop(): Promise<void> {
    this.#isStopping = true;
    this.#tell({ kind: 'stop' });
    return this.#exited;
  }

  #tell(command: EngineCommand): void {
    this.#worker.postMessage(command);
  }
}
