import { connectionAggregate } from '../../functions/connection-aggregate/handler.ts';
import { tunnelStatus } from '../../functions/tunnel-status/handler.ts';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { type RecordedMessage, recordedMessage } from '../../shared/domain/recorded-message.ts';
import type { ReplayStep, ReplaySummary } from '../../shared/domain/replay-step.ts';
import type { StreamName } from '../../shared/domain/topology.ts';
import { Replay, type ReplayOptions } from '../../shared/runtime/replay.ts';
import { type FunctionWorld, SETTINGS } from './function-world.ts';

export const REPLAYED = { tunnelStatus, connectionAggregate } as const;

/** Runs messages through the functions; `steps` holds the whole timeline. */
export async function replayOf(
  messages: Iterable<RecordedMessage> | AsyncIterable<RecordedMessage>,
  options: Partial<Pick<ReplayOptions, 'settings' | 'fromStreamStart'>> = {},
): Promise<{ readonly steps: readonly ReplayStep[]; readonly summary: ReplaySummary }> {
  const steps: ReplayStep[] = [];
  const replay = new Replay({ ...REPLAYED, settings: SETTINGS, ...options, onStep: (step) => steps.push(step) });
  for await (const message of messages) await replay.take(message);
  return { steps, summary: replay.summary() };
}

/** What the streams of a world hold. */
export async function recordedBy(
  world: FunctionWorld,
  stream: StreamName = 'OBSERVATIONS',
): Promise<RecordedMessage[]> {
  const messages: RecordedMessage[] = [];
  const history = new EmbeddedHistory(world.broker);
  for await (const batch of history.read({ stream, from: { sequence: 1 } }, new AbortController().signal)) {
    messages.push(...batch.map(recordedMessage));
  }
  return messages;
}
