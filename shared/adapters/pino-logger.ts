import { destination, type Level, pino, stdSerializers, stdTimeFunctions } from 'pino';
import type { Logger } from '../ports/telemetry.ts';

/** JSON lines on stderr: stdout belongs to results. Written at once, so that the last words of a process are not lost. */
export function createPinoLogger(options: { readonly level: Level }): Logger {
  const settings = {
    level: options.level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: errorFields },
  };
  return pino(settings, destination({ dest: process.stderr.fd, sync: true }));
}

/** Errors with a code are expected, their message says it all; of a bug, the stack is needed. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code, name, message } = error as NodeJS.ErrnoException;
  return code === undefined ? stdSerializers.err(error) : { name, code, message };
}
