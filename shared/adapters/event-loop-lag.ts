import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Meter } from '../ports/telemetry.ts';

const RESOLUTION_MS = 10;
const REPORT_EVERY_MS = 1_000;
const NS_PER_SECOND = 1e9;

/** Keeps `wg_keepalive_event_loop_lag_seconds` at the worst lag of the last second, until `signal` aborts. */
export function reportEventLoopLag(meter: Meter, signal: AbortSignal): void {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const report = () => {
    // The monitor measures the time between its own ticks, hence includes the tick itself.
    const lagNs = delay.count === 0 ? 0 : Math.max(0, delay.max - RESOLUTION_MS * 1e6);
    meter.gauge('wg_keepalive_event_loop_lag_seconds', {}, lagNs / NS_PER_SECOND);
    delay.reset();
  };
  report();
  const timer = setInterval(report, REPORT_EVERY_MS).unref();
  signal.addEventListener('abort', () => {
    clearInterval(timer);
    delay.disable();
  });
}
