import type { JetStreamManager, StoredMsg } from '@nats-io/jetstream';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import type { StreamName } from '../domain/topology.ts';
import type { Clock } from '../ports/clock.ts';
import { BusError, type StoredMessage } from '../ports/event-bus.ts';
import { API_TIMEOUT_MS } from './nats-config.ts';
import { directAnswer, toStoredMessage } from './nats-message.ts';
import type { NatsRequests } from './nats-requests.ts';

/** The server refuses to answer for more subjects at once. */
const MAX_SUBJECTS = 1_024;
const TOO_MANY_RESULTS = 413;
const encoder = new TextEncoder();

/** `before`: up to the message in front of that sequence, which is above 1; left out: of all. */
type Bound = { readonly stream: StreamName; readonly before?: number | undefined };

/**
 * The last message on one subject, or none. By a bare request: who takes a tunnel over from another replica asks for this.
 *
 * @throws BusError
 */
export async function readLastMessage(
  requests: NatsRequests,
  { stream, subject, before }: Bound & { readonly subject: string },
): Promise<readonly StoredMessage[]> {
  const query =
    before === undefined ? { last_by_subj: subject } : { multi_last: [subject], up_to_seq: before - 1, batch: 1 };
  const data = encoder.encode(JSON.stringify(query));
  const answer = await requests.request(`$JS.API.DIRECT.GET.${stream}`, { data, timeoutMs: API_TIMEOUT_MS });
  // Where it is bounded, the end of the batch follows, and finds nobody who waits for it.
  const message = directAnswer(answer, `last message of ${stream} on ${subject}`);
  if (message === undefined) return [];
  const { headers: header } = message;
  const seq = Number(header.get('Nats-Sequence'));
  const time = new Date(header.get('Nats-Time-Stamp'));
  return [toStoredMessage({ subject, seq, time, header, data: message.data }, stream)];
}

/** The last message of each subject that matches, by direct get. Rejects with the client's errors. */
export async function readLastMessages(
  connection: NatsConnection,
  clock: Clock,
  { filter, ...bound }: Bound & { readonly filter: string },
): Promise<readonly StoredMsg[]> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
  const read = (filters: string[]) => readLastOf(manager, clock, filters, bound);
  try {
    return await read([filter]);
  } catch (error) {
    if ((error as { code?: unknown }).code !== TOO_MANY_RESULTS) throw error;
  }
  const { state } = await manager.streams.info(bound.stream, { subjects_filter: filter });
  const subjects = Object.keys(state.subjects ?? {});
  const messages: StoredMsg[] = [];
  for (let at = 0; at < subjects.length; at += MAX_SUBJECTS) {
    messages.push(...(await read(subjects.slice(at, at + MAX_SUBJECTS))));
  }
  return messages;
}

async function readLastOf(
  { direct }: JetStreamManager,
  clock: Clock,
  filters: string[],
  { stream, before }: Bound,
): Promise<readonly StoredMsg[]> {
  const { promise, resolve, reject } = Promise.withResolvers<StoredMsg[]>();
  const messages: StoredMsg[] = [];
  // With a callback: only then does the client drop its subscription at the end.
  const request = await direct.getLastMessagesFor(stream, {
    multi_last: filters,
    ...(before === undefined ? {} : { up_to_seq: before - 1 }),
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
