import type { Logger } from '../../shared/ports/telemetry.ts';

/** Says nothing. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
};
