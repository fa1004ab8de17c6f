import { DECISION_TYPE, type Decision } from './decision.ts';
import { median } from './median.ts';
import { OBSERVATION_TYPE, type Observation, type TunnelEvent } from './observation.ts';
import type { RecordedMessage } from './recorded-message.ts';
import type { RecordedSettings } from './recording.ts';
import type { VerdictSettings } from './rejudge.ts';

/** What a decision says of the settings of the function that took it; `undefined` if nothing. */
export function settingsToldBy({ event }: RecordedMessage): RecordedSettings | undefined {
  const decision = event?.type === DECISION_TYPE ? (event.data as Partial<Decision> | null) : undefined;
  const intervalMs = decision?.judgedBy?.updateStatusIntervalMs;
  return typeof intervalMs === 'number' ? { pingUpdateStatusIntervalMs: intervalMs } : undefined;
}

/** Enough for a median. */
const MAX_SAMPLES = 2_000;

type Tunnel = { gatewayEpoch: number; sequence: number; askedAtMs: number; heardAtMs: number; isDown: boolean };

/**
 * Reads off the observations how often gateways asked and after how many intervals without a PONG they said `down`,
 * for a window that does not tell its settings.
 */
export class SettingsEstimate {
  readonly #tunnels = new Map<string, Tunnel>();
  readonly #intervalsMs: number[] = [];
  readonly #windowsMs: number[] = [];

  /** Whether more observations would tell more. */
  get isComplete(): boolean {
    return this.#intervalsMs.length >= MAX_SAMPLES && this.#windowsMs.length > 0;
  }

  take({ event }: RecordedMessage): void {
    const data = event?.type === OBSERVATION_TYPE ? (event.data as Partial<TunnelEvent> | null) : undefined;
    if (!data || !('sequence' in data) || typeof data.monotonicMs !== 'number') return;
    const observation = data as Observation;
    const key = `${observation.namespace}/${observation.connection}/${observation.interfaceId}`;
    const before = this.#tunnels.get(key);
    const sameRun = before?.gatewayEpoch === observation.gatewayEpoch ? before : undefined;
    if (sameRun !== undefined && observation.sequence <= sameRun.sequence) return;
    this.#tunnels.set(key, this.#next(sameRun, observation));
  }

  read(): Partial<VerdictSettings> {
    const intervalMs = median(this.#intervalsMs);
    if (intervalMs === undefined) return {};
    const windowMs = median(this.#windowsMs);
    if (windowMs === undefined) return { intervalMs };
    return { intervalMs, lossThreshold: Math.max(1, Math.round(windowMs / intervalMs)) };
  }

  #next(before: Tunnel | undefined, observation: Observation): Tunnel {
    const { kind, value, sequence, gatewayEpoch, monotonicMs, rttNs = 0 } = observation;
    const isPong = kind === 'pong';
    const askedAtMs = isPong ? monotonicMs - rttNs / 1e6 : Number.NaN;
    const follows = before !== undefined && sequence === before.sequence + 1 && !before.isDown;
    if (follows && this.#intervalsMs.length < MAX_SAMPLES) {
      const intervalMs = Math.round(askedAtMs - before.askedAtMs);
      if (intervalMs > 0) this.#intervalsMs.push(intervalMs);
    }
    const isDown = value === 'Error';
    if (kind === 'down' && before !== undefined && !before.isDown && before.heardAtMs > 0) {
      this.#windowsMs.push(monotonicMs - before.heardAtMs);
    }
    const heardAtMs = isPong ? monotonicMs : (before?.heardAtMs ?? 0);
    return { gatewayEpoch, sequence, askedAtMs, heardAtMs, isDown };
  }
}
