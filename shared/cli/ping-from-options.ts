import type { PingSettings } from '../domain/ping-settings.ts';
import type { OptionsOf } from './command-table.ts';
import { UsageError } from './errors.ts';

type PingFlags = Pick<
  OptionsOf<'gateway'>,
  | 'pingEnabled'
  | 'pingPort'
  | 'pingIntervalMs'
  | 'pingLossThreshold'
  | 'pingUpdateStatusIntervalMs'
  | 'pingBufferSizeBytes'
  | 'pingSuspectIntervalMs'
>;

/** @throws UsageError if a suspect tunnel would be probed no faster than any other */
export function pingFromOptions(flags: PingFlags): PingSettings {
  const { pingIntervalMs, pingSuspectIntervalMs } = flags;
  if (pingSuspectIntervalMs !== undefined && pingSuspectIntervalMs >= pingIntervalMs) {
    throw new UsageError(
      `--ping-suspect-interval ${pingSuspectIntervalMs}ms: want less than --ping-interval, which is ${pingIntervalMs}ms`,
    );
  }
  return {
    enabled: flags.pingEnabled,
    port: flags.pingPort,
    intervalMs: pingIntervalMs,
    lossThreshold: flags.pingLossThreshold,
    updateStatusIntervalMs: flags.pingUpdateStatusIntervalMs,
    bufferSizeBytes: flags.pingBufferSizeBytes,
  };
}
