import { describe, expect, it } from 'vitest';
import type { Check } from '../../shared/adapters/health-server.ts';
import { logReadiness, untilReady } from '../../shared/cli/readiness.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

function setting() {
  const said: string[] = [];
  const say = (fields: object, message: string) => void said.push(`${message} ${JSON.stringify(fields)}`);
  const log: Logger = { debug: say, info: say, warn: say, error: say, child: () => log };
  const reasons = new Map<string, string>();
  const checkOf = (name: string): Check => ({
    name,
    check: () => {
      const reason = reasons.get(name);
      return reason === undefined ? { ok: true } : { ok: false, reason };
    },
  });
  const stop = new AbortController();
  return { said, log, reasons, checks: [checkOf('nats'), checkOf('kubernetes')], stop, clock: new VirtualClock() };
}

describe('logReadiness', () => {
  it('says once what is waited for, again when that changes, and that all is there', async () => {
    const { said, log, reasons, checks, stop, clock } = setting();
    reasons.set('nats', 'refused').set('kubernetes', 'no CRD');
    const running = logReadiness(checks, { clock, log, signal: stop.signal });
    await clock.advance(10_000);
    expect(said).toEqual(['not there yet, keeps trying {"nats":"refused","kubernetes":"no CRD"}']);
    reasons.delete('nats');
    await clock.advance(10_000);
    reasons.delete('kubernetes');
    await clock.advance(300_000);
    expect(said.slice(1)).toEqual(['not there yet, keeps trying {"kubernetes":"no CRD"}', 'all is there {}']);
    stop.abort();
    await running;
  });

  it('repeats itself once a minute while it waits', async () => {
    const { said, log, reasons, checks, stop, clock } = setting();
    reasons.set('nats', 'refused');
    const running = logReadiness(checks, { clock, log, signal: stop.signal });
    await clock.advance(185_000);
    expect(said).toHaveLength(4);
    stop.abort();
    await running;
  });
});

describe('untilReady', () => {
  it('waits for every check', async () => {
    const { reasons, checks, stop, clock } = setting();
    reasons.set('nats', 'refused');
    const ready = untilReady(checks, clock, stop.signal);
    await clock.advance(5_000);
    reasons.delete('nats');
    await clock.advance(1_000);
    expect(await ready).toBe(true);
  });

  it('gives up when told to stop', async () => {
    const { reasons, checks, stop, clock } = setting();
    reasons.set('nats', 'refused');
    const ready = untilReady(checks, clock, stop.signal);
    stop.abort();
    expect(await ready).toBe(false);
  });
});
