import type { JetStreamManager, StoredMsg } from '@nats-io/jetstream';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import { hasWildcard } from '../domain/subject-pattern.ts';
import type { StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import { BusError } from '../ports/event-bus.ts';
import { API_TIMEOUT_MS } from './nats-config.ts';

/** The server refuses to answer for more subjects at once. */
const MAX_SUBJECTS = 1_024;
const TOO_MANY_RESULTS = 413;

/** The last message of each subject that matches, by direct get. Rejects with the client's errors. */
export async function readLastMessages(
  connection: NatsConnection,
  clock: Clock,
  stream: StreamName,
  filter: string,
): Promise<readonly StoredMsg[]> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
  if (!hasWildcard(filter)) {
    const message = await manager.direct.getMessage(stream, { last_by_subj: filter });
    return message ? [message] : [];
  }
  try {
    return await readLastOf(manager, clock, stream, [filter]);
  } catch (error) {
    if ((error as { code?: unknown }).code !== TOO_MANY_RESULTS) throw error;
    return readInParts(manager, clock, stream, filter);
  }
}

async function readInParts(manager: JetStreamManager, clock: Clock, stream: StreamName, filter: string) {
  const { state } = await manager.streams.info(stream, { subjects_filter: filter });
  const subjects = Object.keys(state.subjects ?? {});
  const messages: StoredMsg[] = [];
  for (let at = 0; at < subjects.length; at += MAX_SUBJECTS) {
    messages.push(...(await readLastOf(manager, clock, stream, subjects.slice(at, at + MAX_SUBJECTS))));
  }
  return messages;
}

async function readLastOf(
  { direct }: JetStreamManager,
  clock: Clock,
  stream: StreamName,
  filters: string[],
): Promise<readonly StoredMsg[]> {
  const { promise, resolve, reject } = Promise.withResolvers<StoredMsg[]>();
  const messages: StoredMsg[] = [];
  // With a callback: only then does the client drop its subscription at the end.
  const request = await direct.getLastMessagesFor(stream, {
    multi_last: filters,
    batch: MAX_SUBJECTS,
    callback: (done, message) => {
      if (!done) messages.push(message);
      else if (done.err) reject(done.err);
      else resolve(messages);
    },
  });
  const timer = clock.after(API_TIMEOUT_MS, () => {
    reject(new BusError('timeout', 'no answer in time'));
    request.stop();
  });
  return promise.finally(() => timer.cancel());
}
