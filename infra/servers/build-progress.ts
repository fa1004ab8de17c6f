import type { ServerPart } from './catalog.ts';

/** One sign of life of a build. */
export type BuildProgress = {
  readonly part: ServerPart;
  readonly elapsedMs: number;
  /** What it does now, or how it ended. */
  readonly detail: string;
  /** True for the last one of a part. */
  readonly done: boolean;
};

/** Gets a progress about every second. */
export type BuildReporter = (progress: BuildProgress) => void;

const LINE_EVERY_MS = 10_000;
const DEFAULT_COLUMNS = 80;

/** One line a part that is rewritten in place on a terminal; elsewhere a new line every ten seconds. */
export function reportToStderr(stream: NodeJS.WriteStream = process.stderr): BuildReporter {
  let nextLineMs = 0;
  return ({ part, elapsedMs, detail, done }) => {
    const line = `${`${part.name} ${part.version}`.padEnd(24)}${formatElapsed(elapsedMs)}  ${detail}`;
    if (stream.isTTY) {
      const end = done ? '\n' : '';
      stream.write(`\r\u001b[K${done ? line : line.slice(0, (stream.columns || DEFAULT_COLUMNS) - 1)}${end}`);
    } else if (done || elapsedMs >= nextLineMs) {
      stream.write(`${line}\n`);
      nextLineMs = elapsedMs + LINE_EVERY_MS;
    }
  };
}

function formatElapsed(elapsedMs: number): string {
  const seconds = Math.floor(elapsedMs / 1000);
  return `${Math.floor(seconds / 60)}:${`${seconds % 60}`.padStart(2, '0')}`;
}
