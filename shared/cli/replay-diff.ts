import { systemClock } from '../adapters/system-clock.ts';
import { AggregateDiff } from '../domain/aggregate-diff.ts';
import { diffConnection } from '../domain/connection-diff.ts';
import { DecisionDiff } from '../domain/decision-diff.ts';
import type { FunctionSettings } from '../domain/function-settings.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import { type Difference, isHarmless } from '../domain/replay-difference.ts';
import type { ReplaySummary } from '../domain/replay-step.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import { TunnelTrails } from '../domain/tunnel-trail.ts';
import { Replay } from '../runtime/replay.ts';
import { StartError } from './errors.ts';
import type { LineOutput } from './line-output.ts';
import { ReplayProgress } from './replay-progress.ts';
import type { ReplaySource } from './replay-source.ts';
import { REPLAYED_FUNCTIONS } from './replay-timeline.ts';

export type DiffOptions = {
  readonly settings: FunctionSettings;
  readonly json: boolean;
  readonly output: LineOutput;
  readonly stop: AbortSignal;
  /** The window has an end of its own. */
  readonly endsEarly: boolean;
};

/**
 * Holds a replay against DECISIONS and the Connections as they are.
 *
 * @returns the exit code: 1 if they differ. @throws StartError for a window without events, or with nothing to hold
 * them against: nothing is no agreement
 */
export async function replayDiff(source: ReplaySource, options: DiffOptions): Promise<number> {
  const { json, output } = options;
  const counts = new Map<string, number>();
  let harmful = 0;
  const tell = async (differences: readonly Difference[]) => {
    for (const difference of differences) {
      counts.set(difference.cause, (counts.get(difference.cause) ?? 0) + 1);
      if (!isHarmless(difference)) harmful += 1;
      for (const line of json ? [JSON.stringify(difference)] : formatDifference(difference)) output.line(line);
    }
    await output.flush();
  };
  const { same, events, held } = await compare(source, options, tell);
  if (events === 0 && !options.stop.aborted) {
    throw new StartError(`--diff: no event is in the window, so nothing was compared; ${await source.contents()}`);
  }
  if (held === 0 && harmful === 0 && !options.stop.aborted) {
    throw new StartError(
      `--diff: ${source.name} holds no decision and no Connection of the ${events} events in the window, so nothing was ` +
        'compared; a recording that import made has none: replay without --diff shows what the functions make of it',
    );
  }
  const causes = Object.fromEntries([...counts].sort());
  if (json) {
    const { updateStatusIntervalMs } = options.settings;
    const end = { events, decisionsThatAgree: same, differences: causes, differs: harmful > 0 };
    output.line(JSON.stringify({ ...end, judgedBy: { updateStatusIntervalMs } }));
  } else {
    const list = Object.entries(causes).map(([cause, count]) => `${count} ${cause}`);
    output.line(`${events} events; ${same} decisions agree; differences: ${list.join(', ') || 'none'}`);
    output.line(harmful > 0 ? 'they differ' : 'they agree');
  }
  await output.flush();
  return harmful > 0 ? 1 : 0;
}

async function compare(
  source: ReplaySource,
  { settings, stop, endsEarly }: DiffOptions,
  tell: (differences: readonly Difference[]) => Promise<void>,
): Promise<{ readonly same: number; readonly events: number; readonly held: number }> {
  let held = 0;
  const [decisions, aggregates, trails] = [new DecisionDiff(settings), new AggregateDiff(), new TunnelTrails()];
  const troubled = new Set<string>();
  const note = async (differences: readonly Difference[]) => {
    for (const { cause, about } of differences) if (cause === 'api-trouble') troubled.add(about);
    await tell(differences);
  };
  const replay = new Replay({
    ...REPLAYED_FUNCTIONS,
    settings,
    fromStreamStart: source.fromStreamStart,
    onStep: (step) => {
      decisions.step(step);
      aggregates.step(step);
      trails.step(step);
    },
  });
  const recorded = upTo(source.messages('DECISIONS', stop));
  let firstAt: number | undefined;
  let lastAt = 0;
  const take = (message: RecordedMessage) => {
    if (message.storedAtUnixMs < (firstAt ?? 0)) return;
    held += 1;
    decisions.decision(message);
    aggregates.decision(message);
  };
  const progress = new ReplayProgress(systemClock);
  for await (const batch of source.messages('OBSERVATIONS', stop)) {
    for (const message of batch) {
      if (stop.aborted) break;
      decisions.event(message);
      trails.event(message);
      await replay.take(message);
    }
    firstAt ??= batch[0]?.storedAtUnixMs;
    lastAt = Math.max(lastAt, batch.at(-1)?.storedAtUnixMs ?? 0);
    await recorded(lastAt, take);
    await note(decisions.settle(lastAt));
    progress.took(batch);
  }
  await recorded(Number.POSITIVE_INFINITY, take);
  progress.end();
  await note([...decisions.finish(), ...aggregates.finish(lastAt)]);
  const summary = replay.summary();
  const { compared, differences } = await diffConnections(source, summary, {
    trails,
    troubled,
    endsEarly,
    shiftOf: (tunnel) => decisions.shiftOf(tunnel),
  });
  await note(differences);
  return { same: decisions.same, events: summary.events, held: held + compared };
}

async function diffConnections(
  source: ReplaySource,
  { connections }: ReplaySummary,
  context: Parameters<typeof diffConnection>[2],
): Promise<{ readonly compared: number; readonly differences: readonly Difference[] }> {
  const differences: Difference[] = [];
  let compared = 0;
  for (const connection of connections) {
    const live = await source.connection(connection);
    if (live === undefined && !source.isLive) continue; // the file was made where there was no Kubernetes to ask
    compared += 1;
    differences.push(...diffConnection(connection, live, context));
  }
  return { compared, differences };
}

/** Reads a stream as far as a given time, again and again. */
function upTo(batches: AsyncIterable<readonly RecordedMessage[]>) {
  const iterator = batches[Symbol.asyncIterator]();
  let waiting: readonly RecordedMessage[] = [];
  let isEnded = false;
  return async (untilUnixMs: number, take: (message: RecordedMessage) => void): Promise<void> => {
    while (!isEnded) {
      const count = waiting.findIndex(({ storedAtUnixMs }) => storedAtUnixMs > untilUnixMs);
      for (const message of count < 0 ? waiting : waiting.slice(0, count)) take(message);
      waiting = count < 0 ? [] : waiting.slice(count);
      if (waiting.length > 0) return;
      const next = await iterator.next();
      isEnded = next.done === true;
      waiting = next.done ? [] : next.value;
    }
  };
}

function formatDifference({ cause, about, at, message, events = [] }: Difference): string[] {
  const when = at === undefined ? '' : `${formatRfc3339Ms(at)}  `;
  return [`${when}${about}  ${cause}: ${message}`, ...events.map((event) => `    ${event}`)];
}
