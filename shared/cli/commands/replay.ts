import { createPinoLogger } from '../../adapters/pino-logger.ts';
import type { FunctionSettings } from '../../domain/function-settings.ts';
import type { OptionsOf, Run } from '../command-table.ts';
import { UsageError } from '../errors.ts';
import { EXIT_INTERRUPTED } from '../exit-codes.ts';
import { LineOutput } from '../line-output.ts';
import { OPTIONS } from '../options.ts';
import { replayDiff } from '../replay-diff.ts';
import { OtherReplay } from '../replay-diff-with.ts';
import { openSource, type ReplaySource, reportingFaults } from '../replay-source.ts';
import { replayTimeline, runTimeline } from '../replay-timeline.ts';
import { functionSettingsOf, statedSettings, variantsOf } from '../replay-variants.ts';
import { replayWhatIf } from '../replay-what-if.ts';
import { abortOnStopSignal } from '../shutdown.ts';
import { windowFromOptions } from '../window-from-options.ts';

/** Runs a window of OBSERVATIONS through the functions again; nothing outside changes by it. */
export const run: Run<'replay'> = async (options) => {
  refuseContradictions(options);
  const window = windowFromOptions(options);
  const { settingChanges = [], settingSweep } = options;
  const isHeldAgainst = options.diff || options.diffWith !== undefined;
  const variants = isHeldAgainst ? [] : variantsOf(settingChanges, settingSweep);
  const stated = isHeldAgainst ? statedSettings(settingChanges) : {};
  const log = createPinoLogger({ level: options.logLevel });
  const gone = new AbortController();
  const stop = AbortSignal.any([abortOnStopSignal(log), gone.signal]);
  const output = new LineOutput(process.stdout, () => gone.abort());

  return reportingFaults(async () => {
    const source = await openSource({ ...options, window, log, stop });
    try {
      tellSource(source);
      const exitCode = await tellingIfEmpty(source, stop, (counted) =>
        variants.length > 0
          ? replayWhatIf(counted, variants, { json: options.json, output, stop })
          : timeline(counted, options, { output, stop, stated }),
      );
      return stop.aborted && !options.follow && !gone.signal.aborted ? EXIT_INTERRUPTED : exitCode;
    } finally {
      await source.close();
    }
  });
};

type Ends = { readonly output: LineOutput; readonly stop: AbortSignal };
type Stated = { readonly stated: Partial<FunctionSettings> };

async function timeline(
  source: ReplaySource,
  options: OptionsOf<'replay'>,
  { stated, ...ends }: Ends & Stated,
): Promise<number> {
  const { replaySpeed: speed, json, diff, diffWith, replayTo } = options;
  const settings = { ...functionSettingsOf(source.settings), ...stated };
  if (diff || diffWith !== undefined) tellSettings(source, settings, stated);
  if (diff) return replayDiff(source, { ...ends, settings, json, endsEarly: replayTo !== undefined });
  if (diffWith !== undefined) return timelineAgainst(source, diffWith, settings, ends);
  await replayTimeline(source, { ...ends, settings, speed, json });
  return 0;
}

async function timelineAgainst(
  source: ReplaySource,
  path: string,
  settings: FunctionSettings,
  { output, stop }: Ends,
): Promise<number> {
  const other = await OtherReplay.open(path);
  const summary = await runTimeline(source, {
    ...{ settings, stop, speed: Number.POSITIVE_INFINITY },
    onStep: (step) => other.step(step),
    onBatch: async () => {
      await other.compare(output);
      await output.flush();
    },
  });
  const differs = await other.finish(output, summary);
  await output.flush();
  return differs ? 1 : 0;
}

function refuseContradictions({ settingChanges, settingSweep, follow, diff, diffWith, replayTo }: OptionsOf<'replay'>) {
  const judgesAnew = settingChanges !== undefined || settingSweep !== undefined;
  if (diff && diffWith !== undefined) {
    throw new UsageError(
      '--diff-with: --diff holds the replay against what is, --diff-with against a file; leave one out',
    );
  }
  if (settingSweep !== undefined && (diff || diffWith !== undefined)) {
    throw new UsageError('--sweep: has a table of its own; leave --diff and --diff-with out, or the sweep');
  }
  if (follow && (judgesAnew || diff || diffWith !== undefined)) {
    throw new UsageError('--follow: has no end, so nothing can be compared; leave --set, --sweep, --diff out');
  }
  if (follow && replayTo !== undefined) throw new UsageError('--follow: has no end; leave --to out');
}

function tellSettings(
  { settings }: ReplaySource,
  { updateStatusIntervalMs }: FunctionSettings,
  stated: Partial<FunctionSettings>,
): void {
  const how =
    stated.updateStatusIntervalMs !== undefined
      ? 'by --set'
      : settings.pingUpdateStatusIntervalMs !== undefined
        ? 'as recorded'
        : 'the default: nothing recorded tells it; --set states another';
  const { flag, kind } = OPTIONS.pingUpdateStatusIntervalMs;
  process.stderr.write(`judged by ${flag} ${kind.format(updateStatusIntervalMs)} (${how})\n`);
}

/** Says so where the window turns out to hold nothing: a wrong time or name looks like peace otherwise. */
async function tellingIfEmpty<T>(
  source: ReplaySource,
  stop: AbortSignal,
  work: (source: ReplaySource) => Promise<T>,
): Promise<T> {
  let isEmpty = true;
  const result = await work({
    ...source,
    async *messages(stream, signal) {
      for await (const batch of source.messages(stream, signal)) {
        if (stream === 'OBSERVATIONS' && batch.length > 0) isEmpty = false;
        yield batch;
      }
    },
  });
  if (isEmpty && !stop.aborted) process.stderr.write(`note: no event is in the window; ${await source.contents()}\n`);
  return result;
}

/** On stderr: what is printed about the events must not depend on where they came from. */
function tellSource({ name, notes }: ReplaySource): void {
  process.stderr.write(`replay of ${name}, in a sandbox\n`);
  for (const note of notes) process.stderr.write(`note: ${note}\n`);
}
