import type { PingCadence } from './ping-cadence.ts';
import type { Moment, ProbeSnapshot, TunnelVoice } from './sighting.ts';

const LEVEL = {
  value: 'Connected',
  reason: 'Unmonitored',
  message: 'not probed: --ping-enabled=false',
} as const;

/** A tunnel that nobody probes: Connected by decree, said once an interval, since silence would mean a dead gateway. */
export class UnmonitoredTunnel {
  readonly #voice: TunnelVoice;
  readonly value = LEVEL.value;
  readonly isMute = false;
  readonly #cadence: PingCadence;
  #sequence: number;

  constructor(voice: TunnelVoice, cadence: PingCadence) {
    this.#voice = voice;
    this.#sequence = voice.lastSequence;
    this.#cadence = cadence;
  }

  get interfaceId(): string {
    return this.#voice.interfaceId;
  }

  get sequence(): number {
    return this.#sequence;
  }

  sendAtMs(): number {
    return Number.POSITIVE_INFINITY;
  }

  judgeAtMs(): number {
    return this.#cadence.nextAtMs();
  }

  judge({ monotonicMs, unixMs }: Moment): void {
    if (this.#cadence.take(monotonicMs) === undefined) return;
    this.#sequence += 1;
    const { interfaceId, emit } = this.#voice;
    emit({
      ...{ interfaceId, sequence: this.#sequence, monotonicMs: Math.round(monotonicMs * 1e3) / 1e3 },
      ...{ kind: 'unmonitored', observedAtUnixMs: unixMs, ...LEVEL },
    });
  }

  stalled(): void {}

  snapshot(): ProbeSnapshot {
    const counts = { consecutiveMisses: 0, transitions: 0, pingsSent: 0, pongsReceived: 0 };
    return { interfaceId: this.interfaceId, ...LEVEL, ...counts, sendErrors: {}, deadlineDeviationsMs: [] };
  }
}
