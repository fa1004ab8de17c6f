import { destination, type Level, pino, stdTimeFunctions } from 'pino';
import type { Logger } from '../ports/telemetry.ts';

/** JSON lines on stderr: stdout belongs to results. Written at once, so that the last words of a process are not lost. */
export function createPinoLogger(options: { readonly level: Level; readonly fields?: object }): Logger {
  const settings = {
    level: options.level,
    base: options.fields ?? null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(settings, destination({ dest: process.stderr.fd, sync: true }));
}
