import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { UnixNanos } from '../../shared/domain/rfc3339-nanos.ts';
import type { Moment, Sighting } from '../../shared/domain/sighting.ts';
import { type ProbeSettings, TunnelProbe } from '../../shared/domain/tunnel-probe.ts';

const UNIX_MS = Date.UTC(2026, 0, 1);
const SLOW: ProbeSettings = { intervalMs: 2_000, lossThreshold: 5 };

/** A probe on a clock that jumps from one due time to the next. */
class Drive {
  readonly sightings: Sighting[] = [];
  readonly probe: TunnelProbe;
  /** Stamps of the PINGs sent, and when. */
  readonly sent: { readonly stamp: UnixNanos; readonly atMs: number }[] = [];
  nowMs = 0;
  /** What becomes of the PING number `index`: a round trip, silence, or a refusal of the kernel. */
  fate: (index: number, atMs: number) => number | 'lost' | { readonly code: string } = () => 1;
  readonly #pongs: { readonly stamp: UnixNanos; readonly atMs: number }[] = [];

  constructor(settings: ProbeSettings = SLOW) {
    const emit = (sighting: Sighting) => this.sightings.push(sighting);
    this.probe = new TunnelProbe({ interfaceId: 'liqo-tunnel', lastSequence: 0, emit }, settings, this.#at(0));
  }

  runTo(endMs: number): void {
    for (;;) {
      this.#pongs.sort((a, b) => a.atMs - b.atMs);
      const pong = this.#pongs[0];
      const atMs = Math.min(
        Math.min(this.probe.sendAtMs(), this.probe.judgeAtMs()),
        pong?.atMs ?? Number.POSITIVE_INFINITY,
      );
      if (atMs > endMs) break;
      this.nowMs = Math.max(this.nowMs, atMs);
      if (pong !== undefined && pong.atMs <= this.nowMs) {
        this.#pongs.shift();
        this.probe.pong(pong.stamp, this.#at(pong.atMs));
      } else {
        this.#send();
        if (this.probe.judgeAtMs() <= this.nowMs) this.probe.judge(this.#at(this.nowMs));
      }
    }
    this.nowMs = endMs;
  }

  pong(stamp: UnixNanos | undefined): string {
    return this.probe.pong(stamp as UnixNanos, this.#at(this.nowMs));
  }

  kinds(): string[] {
    return this.sightings.map(({ kind, value }) => `${kind} ${value}`);
  }

  get last(): Sighting | undefined {
    return this.sightings.at(-1);
  }

  #send(): void {
    const due = this.probe.takeDue(this.nowMs);
    if (due === undefined) return;
    const stamp = { seconds: 1_000 + Math.floor(this.nowMs), nanos: this.sent.length };
    const fate = this.fate(this.sent.push({ stamp, atMs: this.nowMs }) - 1, this.nowMs);
    this.probe.sent(stamp, this.#at(this.nowMs), due);
    if (typeof fate === 'object') {
      this.probe.refused(stamp, fate.code, this.#at(this.nowMs));
      return;
    }
    this.probe.accepted();
    if (fate !== 'lost') this.#pongs.push({ stamp, atMs: this.nowMs + fate });
  }

  #at(monotonicMs: number): Moment {
    return { monotonicMs, unixMs: UNIX_MS + monotonicMs };
  }
}

describe('the value', () => {
  test('is Connecting until the first PONG, then Connected, with the round trip in nanoseconds', () => {
    const drive = new Drive();
    drive.fate = (index) => (index === 0 ? 'lost' : 1.5);
    drive.runTo(2_100);
    expect(drive.kinds()).toEqual(['miss Connecting', 'pong Connected']);
    expect(drive.last).toMatchObject({ sequence: 2, rttNs: 1_500_000, minRttNs: 1_500_000, monotonicMs: 2_001.5 });
    expect(drive.last?.reason).toBeUndefined();
  });

  test.for([
    [2_000, 5],
    [100, 3],
    [50, 3],
  ])('becomes Error exactly %i ms × %i after the last PONG', ([intervalMs = 0, lossThreshold = 0]) => {
    const drive = new Drive({ intervalMs, lossThreshold });
    drive.fate = (_, atMs) => (atMs <= 10 * intervalMs ? 0.25 : 'lost');
    drive.runTo(40 * intervalMs);
    const down = drive.sightings.findIndex(({ value }) => value === 'Error');
    expect(drive.sightings[down]).toMatchObject({
      kind: 'down',
      reason: 'Lost',
      monotonicMs: 10 * intervalMs + 0.25 + intervalMs * lossThreshold,
    });
    expect(drive.sightings[down - 1]?.value).toBe('Connected');
    expect(drive.probe.snapshot().deadlineDeviationsMs).toEqual([0]);
  });

  test('of a tunnel that never answers becomes Error one window after its first PING was due, refusals included', () => {
    for (const fate of ['lost', { code: 'EPERM' }] as const) {
      const drive = new Drive();
      drive.fate = () => fate;
      drive.runTo(10_000);
      expect(drive.last).toMatchObject({ kind: 'down', value: 'Error', reason: 'NeverAnswered', monotonicMs: 10_000 });
      expect(drive.last?.message).toContain('no PONG since the first PING was due at 2026-01-01T00:00:00.000Z');
      expect(drive.last?.message?.includes('EPERM')).toBe(fate !== 'lost');
    }
  });

  test('recovers with the next PONG, and nothing of the failure stays', () => {
    const drive = new Drive();
    drive.fate = (_, atMs) => (atMs > 4_000 && atMs < 20_000 ? 'lost' : 1);
    drive.runTo(20_300);
    expect(drive.last).toMatchObject({ kind: 'pong', value: 'Connected' });
    expect(Object.keys(drive.last ?? {})).not.toEqual(expect.arrayContaining(['reason']));
    expect(drive.probe.snapshot()).toMatchObject({ value: 'Connected', consecutiveMisses: 0, transitions: 3 });
    expect(drive.probe.snapshot().message).toBeUndefined();
  });

  test('survives any round trip that is shorter than the window', () => {
    const drive = new Drive({ intervalMs: 50, lossThreshold: 3 });
    drive.fate = () => 140;
    drive.runTo(5_000);
    expect(drive.sightings.filter(({ kind }) => kind !== 'pong')).toEqual([]);
  });

  test('survives the sudden slowness of a tunnel that was fast', () => {
    const drive = new Drive();
    drive.fate = (_, atMs) => (atMs < 60_000 ? 1 : 3_000);
    drive.runTo(120_000);
    expect(drive.sightings.filter(({ value }) => value === 'Error')).toEqual([]);
    expect(drive.last?.kind).toBe('pong');
  });
});

describe('observations', () => {
  test('one a PING: pong or miss, in sequence', () => {
    const drive = new Drive();
    drive.fate = (index) => (index % 3 === 1 ? 'lost' : 1);
    drive.runTo(61_000);
    expect(drive.sightings.length).toBe(drive.sent.length);
    expect(drive.sightings.map(({ sequence }) => sequence)).toEqual(drive.sightings.map((_, index) => index + 1));
  });

  test('down at the deadline, then each interval; recovery probes in between say nothing', () => {
    const drive = new Drive();
    drive.fate = (_, atMs) => (atMs === 0 ? 0 : 'lost');
    drive.runTo(20_000);
    const downs = drive.sightings.filter(({ kind }) => kind === 'down');
    expect(downs.map(({ monotonicMs }) => monotonicMs)).toEqual([10_000, 12_000, 14_000, 16_000, 18_000, 20_000]);
    expect(new Set(downs.map(({ reason, message }) => `${reason} ${message}`)).size).toBe(1);
    expect(drive.sightings.filter(({ kind }) => kind === 'miss').length).toBe(5);
    expect(drive.sent.filter(({ atMs }) => atMs > 10_000).length).toBe(40);
    expect(drive.last?.consecutiveMisses).toBe(9);
  });

  test('a recovery takes at most 250 ms and a round trip', () => {
    fc.assert(
      fc.property(fc.double({ min: 12_000, max: 60_000, noNaN: true }), (backAtMs) => {
        const drive = new Drive();
        drive.fate = (_, atMs) => (atMs > 0 && atMs < backAtMs ? 'lost' : 1);
        drive.runTo(backAtMs + 251);
        expect(drive.probe.value).toBe('Connected');
      }),
    );
  });

  test('a refused PING is a miss at once, with the code as its reason', () => {
    const drive = new Drive();
    drive.fate = (index) => (index === 1 ? { code: 'ENETUNREACH' } : 1);
    drive.runTo(2_000);
    expect(drive.last).toMatchObject({ kind: 'miss', value: 'Connected', reason: 'SendFailed:ENETUNREACH' });
    drive.runTo(4_001);
    expect(drive.last).toMatchObject({ kind: 'pong' });
    expect(drive.last?.reason).toBeUndefined();
    expect(drive.probe.snapshot().sendErrors).toEqual({ ENETUNREACH: 1 });
  });

  test('messages hold instants, no ages: every one of an outage reads the same', () => {
    const drive = new Drive();
    drive.fate = (_, atMs) => (atMs === 0 ? 0 : { code: 'EPERM' });
    drive.runTo(600_000);
    const messages = new Set(drive.sightings.filter(({ kind }) => kind === 'down').map(({ message }) => message));
    expect([...messages]).toEqual([
      'no PONG since 2026-01-01T00:00:00.000Z; sending fails with EPERM: a firewall drops it: look at nft list ruleset',
    ]);
  });

  test('report what they saw and no more: a miss or down has no round trip', () => {
    const drive = new Drive();
    drive.fate = (_, atMs) => (atMs < 5_000 ? 1 : 'lost');
    drive.runTo(30_000);
    for (const { kind, rttNs, minRttNs } of drive.sightings) {
      expect(rttNs === undefined).toBe(kind !== 'pong');
      expect(minRttNs === undefined).toBe(kind !== 'pong');
    }
  });
});

describe('a PONG', () => {
  test('counts once', () => {
    const drive = new Drive();
    drive.runTo(1_999);
    expect(drive.pong(drive.sent[0]?.stamp)).toBe('duplicate');
    expect(drive.sightings.length).toBe(1);
  });

  test('that nobody asked for changes nothing', () => {
    const drive = new Drive();
    drive.fate = () => 'lost';
    drive.runTo(5_000);
    for (const seconds of [-3_600, 0, 3_600]) {
      expect(drive.pong({ seconds: (drive.sent[1]?.stamp.seconds ?? 0) + seconds, nanos: 999 })).toBe('unknown');
    }
    expect(drive.probe.value).toBe('Connecting');
    expect(drive.probe.snapshot().lastRttNs).toBeUndefined();
  });

  test('of an older PING never follows that of a newer one', () => {
    const drive = new Drive({ intervalMs: 100, lossThreshold: 3 });
    drive.fate = () => 'lost';
    drive.runTo(100);
    drive.nowMs = 105;
    expect(drive.pong(drive.sent[1]?.stamp)).toBe('counted');
    drive.nowMs = 106;
    expect(drive.pong(drive.sent[0]?.stamp)).toBe('reordered');
    expect(drive.sightings.filter(({ kind }) => kind === 'pong').map(({ rttNs }) => rttNs)).toEqual([5_000_000]);
  });

  test('that comes after its PING was given up neither refreshes the deadline nor measures', () => {
    const drive = new Drive();
    drive.fate = (index) => (index === 0 ? 1 : 'lost');
    drive.runTo(9_000);
    expect(drive.pong(drive.sent[1]?.stamp)).toBe('late');
    drive.runTo(10_001);
    expect(drive.last).toMatchObject({ kind: 'down', monotonicMs: 10_001 });
  });

  test('storms and silence in any mix: the value is Error exactly when the window is empty', () => {
    const fates = fc.array(fc.oneof(fc.constant('lost' as const), fc.double({ min: 0, max: 400, noNaN: true })), {
      ...{ minLength: 1, maxLength: 400 },
    });
    fc.assert(
      fc.property(fates, (plan) => {
        const drive = new Drive({ intervalMs: 100, lossThreshold: 3 });
        drive.fate = (index) => plan[index % plan.length] ?? 'lost';
        drive.runTo(20_000);
        let heardMs = 0;
        let value = 'Connecting';
        for (const sighting of drive.sightings) {
          if (sighting.kind === 'pong') {
            heardMs = sighting.monotonicMs;
            value = 'Connected';
          } else if (sighting.value !== value) {
            expect(sighting).toMatchObject({ kind: 'down', value: 'Error' });
            expect(sighting.monotonicMs - heardMs).toBeCloseTo(300, 2);
            value = 'Error';
          }
          expect(sighting.value).toBe(value);
          if (value !== 'Error') expect(sighting.monotonicMs - heardMs).toBeLessThanOrEqual(300.01);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('suspicion', () => {
  const EAGER: ProbeSettings = { ...SLOW, suspectIntervalMs: 50 };

  test('shows after a first miss while the value stays, and a PONG ends it', () => {
    const drive = new Drive(EAGER);
    drive.fate = (index) => (index === 1 ? 'lost' : 1);
    drive.runTo(4_100);
    expect(drive.kinds()).toEqual(['pong Connected', 'miss Connected', 'pong Connected']);
    expect(drive.sightings[1]?.reason).toBe('Suspect');
    expect(drive.last?.reason).toBeUndefined();
    expect(drive.sent.length).toBe(3);
  });

  test('probes fast, and leaves the deadline where it is', () => {
    const drive = new Drive(EAGER);
    drive.fate = (index) => (index === 0 ? 0 : 'lost');
    drive.runTo(10_000);
    expect(drive.last).toMatchObject({ kind: 'down', monotonicMs: 10_000 });
    expect(drive.sent.length).toBeGreaterThan(110);
    expect(drive.sightings.filter(({ kind }) => kind === 'miss').length).toBe(4);
  });

  test('makes Error rarer under random and bursty loss, never more frequent', () => {
    for (const burstMs of [0, 3_000]) {
      const errors = (settings: ProbeSettings) => {
        let count = 0;
        for (let seed = 1; seed <= 20; seed++) {
          const drive = new Drive(settings);
          drive.fate = lossy(seed, 0.3, burstMs);
          drive.runTo(600_000);
          count += drive.sightings.filter(({ kind, value }) => kind === 'down' && value === 'Error').length;
        }
        return count;
      };
      expect(errors(EAGER)).toBeLessThanOrEqual(errors(SLOW));
    }
  });
});

describe('10 % random loss', () => {
  test('for 5 minutes at 2 s × 5 makes no Error (C10)', () => {
    for (let seed = 1; seed <= 50; seed++) {
      const drive = new Drive();
      drive.fate = lossy(seed, 0.1, 0);
      drive.runTo(300_000);
      expect(drive.sightings.filter(({ value }) => value === 'Error')).toEqual([]);
      expect(drive.sightings.some(({ kind }) => kind === 'miss')).toBe(true);
    }
  });
});

describe('a pause of this process', () => {
  const stall = (fromMs: number, toMs: number) => ({
    from: { monotonicMs: fromMs, unixMs: UNIX_MS + fromMs },
    to: { monotonicMs: toMs, unixMs: UNIX_MS + toMs },
  });

  test('does not count towards the deadline, as nobody was asked meanwhile', () => {
    const drive = new Drive();
    drive.runTo(3_000);
    const heardMs = drive.last?.monotonicMs ?? 0;
    drive.nowMs = 60_000;
    drive.probe.stalled(stall(4_000, 60_000));
    drive.probe.judge({ monotonicMs: 60_000, unixMs: UNIX_MS + 60_000 });
    expect(drive.probe.value).toBe('Connected');
    drive.fate = () => 'lost';
    drive.runTo(80_000);
    const down = drive.sightings.find(({ kind }) => kind === 'down');
    expect(down?.monotonicMs).toBe(heardMs + 56_000 + 10_000);
  });

  test('shows as Starved, and the PONG that waited through it measures nothing', () => {
    const drive = new Drive();
    drive.fate = (_, atMs) => (atMs < 3_000 ? 2 : 'lost');
    drive.runTo(4_500);
    const pause = stall(6_000, 26_000);
    drive.probe.stalled(pause);
    drive.nowMs = 26_000;
    const verdict = drive.probe.pong(drive.sent[2]?.stamp as UnixNanos, pause.to, pause);
    expect(verdict).toBe('counted');
    expect(drive.last).toMatchObject({ kind: 'pong', value: 'Connected', reason: 'Starved', rttNs: 2_000_000 });
    expect(drive.last?.message).toBe(
      'this gateway itself stood still from 2026-01-01T00:00:06.000Z to 2026-01-01T00:00:26.000Z',
    );
    expect(drive.probe.snapshot().meanRttNs).toBe(2_000_000);
  });
});

describe('statistics', () => {
  test('tell last, least of 8, mean, deviation, jitter and loss', () => {
    const drive = new Drive({ intervalMs: 100, lossThreshold: 3 });
    const rtts = [5, 1, 9, 3, 3, 3, 3, 3, 3, 3, 'lost', 7] as const;
    drive.fate = (index) => rtts[index] ?? 'lost';
    drive.runTo(1_150);
    const samples = rtts.filter((rtt) => rtt !== 'lost').map((rtt) => rtt * 1e6);
    const mean = samples.reduce((sum, rtt) => sum + rtt, 0) / samples.length;
    const variance = samples.reduce((sum, rtt) => sum + (rtt - mean) ** 2, 0) / samples.length;
    let jitter = 0;
    for (let i = 1; i < samples.length; i++) {
      jitter += (Math.abs((samples[i] as number) - (samples[i - 1] as number)) - jitter) / 16;
    }
    const { lastRttNs, minRttNs, meanRttNs, deviationRttNs, jitterNs, lossRatio } = drive.probe.snapshot();
    expect({ lastRttNs, minRttNs }).toEqual({ lastRttNs: 7_000_000, minRttNs: 3_000_000 });
    expect(meanRttNs).toBeCloseTo(mean, 0);
    expect(deviationRttNs).toBeCloseTo(Math.sqrt(variance), 0);
    expect(jitterNs).toBeCloseTo(jitter, 0);
    expect(lossRatio).toBeCloseTo(1 / 12);
  });

  test('are absent, not zero, before anything was measured', () => {
    const { lastRttNs, minRttNs, meanRttNs, jitterNs, lossRatio } = new Drive().probe.snapshot();
    expect([lastRttNs, minRttNs, meanRttNs, jitterNs, lossRatio]).toEqual(Array(5).fill(undefined));
  });
});

/** A share of PINGs is lost, and from time to time all of them for `burstMs`; the same for the same seed and instant. */
function lossy(seed: number, share: number, burstMs: number): Drive['fate'] {
  let state = seed;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return (_, atMs) => {
    const isBurst = burstMs > 0 && (atMs + seed * 977) % 30_000 < burstMs;
    return isBurst || random() < share ? 'lost' : 1;
  };
}
