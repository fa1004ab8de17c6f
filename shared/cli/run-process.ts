import { reportEventLoopLag } from '../adapters/event-loop-lag.ts';
import { type Check, type HealthServer, ListenError, startHealthServer } from '../adapters/health-server.ts';
import { createPinoLogger } from '../adapters/pino-logger.ts';
import { PrometheusMeter } from '../adapters/prometheus-meter.ts';
import type { Logger, Meter } from '../ports/telemetry.ts';
import type { OptionsOf } from './command-table.ts';
import { StartError } from './errors.ts';
import { type BindAddress, bindAddress } from './option-kinds.ts';
import { abortOnStopSignal, DRAIN_TIMEOUT_MS, finishesWithin } from './shutdown.ts';

/** What a long-running command finds around its work. */
export type Surroundings = {
  readonly log: Logger;
  readonly meter: Meter;
  /** Aborts at SIGTERM, SIGINT or SIGHUP: take nothing in any more, settle what is at hand, return. */
  readonly stop: AbortSignal;
  /** Shown by `/healthz`; a part adds itself when it starts. */
  readonly liveness: Check[];
  /** Shown by `/readyz`; what is not yet connected is not ready. */
  readonly readiness: Check[];
};

/**
 * Runs `work` with a logger, metrics and the health server, which listens before anything else starts: whoever looks
 * sees what is missing. `work` returns when `stop` has aborted, within {@link DRAIN_TIMEOUT_MS}, else it is left behind.
 *
 * @returns the exit code: that of `work`, 1 if it did not end in time
 * @throws StartError if the metrics address cannot be had
 */
export async function runProcess(
  options: Pick<OptionsOf<'gateway'>, 'logLevel' | 'metricsBindAddress'>,
  work: (surroundings: Surroundings) => Promise<number>,
): Promise<number> {
  const log = createPinoLogger({ level: options.logLevel });
  const meter = new PrometheusMeter();
  const liveness: Check[] = [];
  const readiness: Check[] = [];
  const health = await serveHealth(options.metricsBindAddress, { liveness, readiness, meter });
  const stop = abortOnStopSignal(log);
  reportEventLoopLag(meter, stop);
  try {
    const working = work({ log, meter, stop, liveness, readiness });
    await Promise.race([working, aborted(stop)]);
    if (await finishesWithin(DRAIN_TIMEOUT_MS, working)) return await working;
    log.error({ timeoutMs: DRAIN_TIMEOUT_MS }, 'stopped before all was finished');
    return 1;
  } finally {
    await health.close();
  }
}

async function serveHealth(
  bind: BindAddress,
  parts: { readonly liveness: readonly Check[]; readonly readiness: readonly Check[]; readonly meter: PrometheusMeter },
): Promise<HealthServer> {
  const { liveness, readiness, meter } = parts;
  const metrics = { contentType: meter.contentType, render: () => meter.render() };
  try {
    return await startHealthServer({ bind, liveness, readiness, metrics });
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    const given = bindAddress.format(bind);
    throw new StartError(
      `--metrics-bind-address ${given}: ${error.message}; choose another address, or :0 for any port`,
      {
        cause: error,
      },
    );
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
