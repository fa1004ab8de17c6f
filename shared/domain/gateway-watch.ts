import { connectionKey } from './connection.ts';
import { connectionOf, type Observation, type TunnelEvent } from './observation.ts';
import type { RecordedMessage } from './recorded-message.ts';
import { parseRfc3339, unixMsOf } from './rfc3339-nanos.ts';

/** What looks wrong about a gateway run, read off its observations. */
export type GatewaySuspicion = {
  readonly kind: 'clock-step' | 'lag' | 'restart';
  readonly sequence: number;
  readonly at: number;
  readonly message: string;
};

/** The wall clock may be slewed by this much between two observations without anybody having stepped it. */
const STEP_MS = 500;
/** An observation that took this much longer than the quickest of its run to be stored was held up. */
const LAG_MS = 5_000;
const MAX_KEPT = 20;

type Run = {
  epoch: number;
  wallMinusMonotonicMs: number;
  leastDelayMs: number;
  isLagging: boolean;
};

/**
 * Compares the clocks of one gateway with themselves only: its wall clock with its monotonic one for steps, the growth of
 * the server's time with that of the monotonic one for delay. Times of two hosts are never subtracted.
 */
export class GatewayWatch {
  readonly #runs = new Map<string, Run>();
  readonly suspicions: GatewaySuspicion[] = [];

  event(message: RecordedMessage): void {
    const data = message.event?.data as Partial<TunnelEvent> | undefined;
    if (!data || !('sequence' in data) || typeof data.monotonicMs !== 'number') return;
    const observation = data as Observation;
    const key = connectionKey(connectionOf(observation));
    const instant = parseRfc3339(observation.observedAt);
    if (instant === undefined) return;
    const wallMinusMonotonicMs = unixMsOf(instant) - observation.monotonicMs;
    const delayMs = message.storedAtUnixMs - observation.monotonicMs;
    const run = this.#runs.get(key);
    if (run === undefined || run.epoch !== observation.gatewayEpoch) {
      if (run !== undefined && observation.gatewayEpoch < run.epoch) return;
      if (run !== undefined) this.#tell('restart', message, `gateway run ${observation.gatewayEpoch} began`);
      const { gatewayEpoch: epoch } = observation;
      this.#runs.set(key, { epoch, wallMinusMonotonicMs, leastDelayMs: delayMs, isLagging: false });
      return;
    }
    const stepMs = wallMinusMonotonicMs - run.wallMinusMonotonicMs;
    if (Math.abs(stepMs) >= STEP_MS) {
      this.#tell('clock-step', message, `the gateway's wall clock was stepped by ${Math.round(stepMs)} ms`);
    }
    run.wallMinusMonotonicMs = wallMinusMonotonicMs;
    run.leastDelayMs = Math.min(run.leastDelayMs, delayMs);
    this.#watchDelay(run, delayMs - run.leastDelayMs, message);
  }

  #watchDelay(run: Run, lagMs: number, message: RecordedMessage): void {
    const isLagging = lagMs >= LAG_MS;
    if (isLagging && !run.isLagging) {
      this.#tell(
        'lag',
        message,
        `stored ${Math.round(lagMs)} ms later than the quickest of this run: NATS was away, or slow`,
      );
    }
    run.isLagging = isLagging;
  }

  #tell(kind: GatewaySuspicion['kind'], { sequence, storedAtUnixMs: at }: RecordedMessage, message: string): void {
    this.suspicions.push({ kind, sequence, at, message });
    if (this.suspicions.length > MAX_KEPT) this.suspicions.shift();
  }
}
