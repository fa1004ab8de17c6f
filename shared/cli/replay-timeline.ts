import { createHash } from 'node:crypto';
import { connectionAggregate } from '../../functions/connection-aggregate/handler.ts';
import { tunnelStatus } from '../../functions/tunnel-status/handler.ts';
import { systemClock } from '../adapters/system-clock.ts';
import type { FunctionSettings } from '../domain/function-settings.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
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
  readonly speed: number;
  readonly json: boolean;
  readonly output: LineOutput;
  readonly stop: AbortSignal;
  /** Sees every step as well. */
  readonly onStep?: (step: ReplayStep) => void;
  /** Called after each batch of events. */
  readonly onBatch?: (batch: readonly RecordedMessage[]) => Promise<void>;
};

/** Runs the window through the functions and writes each step; the same window writes the same bytes. */
export async function replayTimeline(
  source: ReplaySource,
  { settings, speed, json, output, stop, onStep, onBatch }: TimelineOptions,
): Promise<ReplaySummary> {
  const digest = new ReplayDigest();
  const replay = new Replay({
    ...REPLAYED_FUNCTIONS,
    settings,
    onStep: (step) => {
      digest.step(step);
      output.line(json ? JSON.stringify(step) : formatStep(step));
      onStep?.(step);
    },
  });
  const pace = pacer(systemClock, speed);
  const progress = new ReplayProgress(systemClock);
  for await (const batch of source.messages('OBSERVATIONS', stop)) {
    for (const message of batch) {
      const due = pace(message.storedAtUnixMs, stop);
      if (due !== undefined) {
        await output.flush();
        await due;
      }
      if (stop.aborted) break;
      await replay.take(message);
    }
    await onBatch?.(batch);
    await output.flush();
    if (speed === Number.POSITIVE_INFINITY) progress.took(batch);
    if (stop.aborted) break;
  }
  progress.end();
  const summary = replay.summary();
  const value = digest.end(summary);
  if (json) output.line(JSON.stringify({ summary, digest: value }));
  else for (const line of ['', ...formatSummary(summary), `digest ${value}`]) output.line(line);
  await output.flush();
  return summary;
}
