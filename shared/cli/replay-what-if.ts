import { systemClock } from '../adapters/system-clock.ts';
import { SettingsEstimate } from '../domain/recorded-settings.ts';
import type { VerdictSettings } from '../domain/rejudge.ts';
import { compareResults, formatWhatIf } from '../domain/what-if-text.ts';
import { WhatIf, type WhatIfVariant } from '../runtime/what-if.ts';
import { UsageError } from './errors.ts';
import type { LineOutput } from './line-output.ts';
import { OPTIONS } from './options.ts';
import { ReplayProgress } from './replay-progress.ts';
import type { ReplaySource } from './replay-source.ts';
import { REPLAYED_FUNCTIONS } from './replay-timeline.ts';
import { functionSettingsOf, type Variant } from './replay-variants.ts';

type Options = { readonly json: boolean; readonly output: LineOutput; readonly stop: AbortSignal };

/** Judges the window by each variant beside what was recorded, in one pass, and writes the comparison. */
export async function replayWhatIf(
  source: ReplaySource,
  variants: readonly Variant[],
  { json, output, stop }: Options,
): Promise<number> {
  const recorded = { ...functionSettingsOf(source.settings), ...(await recordedVerdict(source, stop)) };
  const whatIf = new WhatIf({
    functions: REPLAYED_FUNCTIONS,
    recorded,
    fromStreamStart: source.fromStreamStart,
    variants: [{ label: 'as recorded', settings: {} }, ...variants.map((variant) => settingsOf(variant, recorded))],
  });
  const progress = new ReplayProgress(systemClock);
  let endUnixMs = 0;
  for await (const batch of source.messages('OBSERVATIONS', stop)) {
    for (const message of batch) {
      if (stop.aborted) break;
      await whatIf.take(message);
      endUnixMs = Math.max(endUnixMs, message.storedAtUnixMs);
    }
    progress.took(batch);
  }
  progress.end();
  const report = compareResults(whatIf.results(endUnixMs));
  for (const line of json ? [JSON.stringify({ recorded, ...report })] : formatWhatIf(report)) output.line(line);
  await output.flush();
  return 0;
}

/** Told by the recording, else read off its observations; where they do not tell, the defaults, and that is said. */
async function recordedVerdict({ settings, messages }: ReplaySource, stop: AbortSignal): Promise<VerdictSettings> {
  const { pingIntervalMs, pingLossThreshold } = settings;
  if (pingIntervalMs !== undefined && pingLossThreshold !== undefined) {
    return { intervalMs: pingIntervalMs, lossThreshold: pingLossThreshold };
  }
  const estimate = new SettingsEstimate();
  for await (const batch of messages('OBSERVATIONS', stop)) {
    for (const message of batch) estimate.take(message);
    if (estimate.isComplete) break;
  }
  const read = estimate.read();
  const intervalMs = pingIntervalMs ?? read.intervalMs ?? OPTIONS.pingIntervalMs.default;
  const lossThreshold = pingLossThreshold ?? read.lossThreshold ?? OPTIONS.pingLossThreshold.default;
  const how = (known: number | undefined) => (known === undefined ? 'the default' : 'read off the observations');
  process.stderr.write(
    `recorded with ping-interval ${OPTIONS.pingIntervalMs.kind.format(intervalMs)} (${how(read.intervalMs)}), ` +
      `ping-loss-threshold ${lossThreshold} (${how(read.lossThreshold)})\n`,
  );
  return { intervalMs, lossThreshold };
}

/** @throws UsageError for an interval that the recording cannot answer for */
function settingsOf({ label, changes }: Variant, recorded: VerdictSettings): WhatIfVariant {
  const { pingIntervalMs, pingLossThreshold, pingUpdateStatusIntervalMs, gatewaySilentAfterMs } = changes;
  if (pingIntervalMs !== undefined && pingIntervalMs < recorded.intervalMs) {
    const { format } = OPTIONS.pingIntervalMs.kind;
    throw new UsageError(
      `${label}: recorded every ${format(recorded.intervalMs)}; what PINGs between would have found nobody knows`,
    );
  }
  const verdict = {
    intervalMs: pingIntervalMs ?? recorded.intervalMs,
    lossThreshold: pingLossThreshold ?? recorded.lossThreshold,
  };
  // The verdicts that were given, to the millisecond, are better than those derived anew.
  const isJudgedAnew = verdict.intervalMs !== recorded.intervalMs || verdict.lossThreshold !== recorded.lossThreshold;
  return {
    label,
    settings: {
      ...(isJudgedAnew && { verdict }),
      ...(gatewaySilentAfterMs !== undefined && { gatewaySilentAfterMs }),
      ...(pingUpdateStatusIntervalMs !== undefined && { updateStatusIntervalMs: pingUpdateStatusIntervalMs }),
    },
  };
}
