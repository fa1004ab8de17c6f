import { createHash } from 'node:crypto';
import { connectionAggregate } from '../../functions/connection-aggregate/handler.ts';
import { tunnelStatus } from '../../functions/tunnel-status/handler.ts';
import { systemClock } from '../adapters/system-clock.ts';
import type { FunctionSettings } from '../domain/function-settings.ts';
import type { ReplayStep, ReplaySummary } from '../domain/replay-step.ts';
import { formatStep, formatSummary } from '../domain/replay-text.ts';
import { pacer } from '../runtime/pace.ts';
import { Replay } from '../runtime/replay.ts';
import type { LineOutput } from './line-output.ts';
import { ReplayProgress } from './replay-progress.ts';
import type { ReplaySource } from './replay-source.ts';

export const REPLAYED_FUNCTIONS = { tunnelStatus, connectionAggregate } as const;

/** SHA-256 over every step and the end: equal where two replays are. */
export class ReplayDigest {
  readonly #hash = createHash('sha256');

  step(step: ReplayStep): void {
    this.#hash.update(`${JSON.stringify(step)}\n`);
  }

  end(summary: ReplaySummary): string {
    return `sha256:${this.#hash.update(`${JSON.stringify(summary)}\n`).digest('hex')}`;
  }
}

export type TimelineOptions = {
  readonly settings: FunctionSettings;
  /** Times as fast as it happened. */
  readonly speed: number;
  readonly stop: AbortSignal;
};

/** Runs the window through the functions; `onBatch` is called whenever it waits, and at the end of each batch. */
export async function runTimeline(
  source: ReplaySource,
  options: TimelineOptions & {
    readonly onStep: (step: ReplayStep) => void;
    readonly onBatch: () => Promise<void>;
  },
): Promise<ReplaySummary> {
  const { settings, speed, stop, onStep, onBatch } = options;
  const { fromStreamStart } = source;
  const replay = new Replay({ ...REPLAYED_FUNCTIONS, settings, fromStreamStart, onStep });
  const pace = pacer(systemClock, speed);
  const progress = speed === Number.POSITIVE_INFINITY ? new ReplayProgress(systemClock) : undefined;
  for await (const batch of source.messages('OBSERVATIONS', stop)) {
    for (const message of batch) {
      const due = pace(message.storedAtUnixMs, stop);
      if (due !== undefined) {
        await onBatch();
        await due;
      }
      if (stop.aborted) break;
      await replay.take(message);
    }
    await onBatch();
    progress?.took(batch);
    if (stop.aborted) break;
  }
  progress?.end();
  return replay.summary();
}

/** Writes each step and what it comes to; the same window writes the same bytes. */
export async function replayTimeline(
  source: ReplaySource,
  options: TimelineOptions & { readonly json: boolean; readonly output: LineOutput },
): Promise<void> {
  const { json, output } = options;
  const digest = new ReplayDigest();
  const summary = await runTimeline(source, {
    ...options,
    onStep: (step) => {
      digest.step(step);
      output.line(json ? JSON.stringify(step) : formatStep(step));
    },
    onBatch: () => output.flush(),
  });
  const value = digest.end(summary);
  if (json) output.line(JSON.stringify({ summary, digest: value }));
  else for (const line of ['', ...formatSummary(summary), `digest ${value}`]) output.line(line);
  await output.flush();
}
