import type { JetStreamManager } from '@nats-io/jetstream';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import type { ConsumerSpec } from '../domain/topology.ts';
import { API_TIMEOUT_MS, consumerConfig } from './nats-config.ts';
import { CONSUMER_EXISTS, CONSUMER_NOT_FOUND, isFault, STREAM_NOT_FOUND } from './nats-errors.ts';

/** Where this process stands with a consumer: the newest message that it has settled. */
export type LastSettled = { readonly streamSequence: number; readonly storedAtUnixMs: number };

/**
 * Finds out why pulls are refused and mends it: makes the consumer anew where it is gone, from behind the last
 * message that this process has settled. Many replicas do so at once; whoever is first wins, and the others accept.
 *
 * @returns what is wrong for good, or `undefined` once pulling is worth another try
 * @throws the client's error if there is no answer
 */
export async function recoverConsumer(
  connection: NatsConnection,
  spec: ConsumerSpec,
  lastSettled: LastSettled | undefined,
): Promise<string | undefined> {
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
  try {
    await manager.consumers.info(spec.stream, spec.durable);
    return undefined;
  } catch (error) {
    if (isFault(error, STREAM_NOT_FOUND)) return streamMissing(spec);
    if (!isFault(error, CONSUMER_NOT_FOUND)) throw error;
  }
  try {
    await manager.consumers.add(spec.stream, consumerConfig(spec, await startSequence(manager, spec, lastSettled)));
    return undefined;
  } catch (error) {
    if (isFault(error, STREAM_NOT_FOUND)) return streamMissing(spec);
    if (isFault(error, ...CONSUMER_EXISTS)) return undefined;
    throw error;
  }
}

/** `undefined` (all) where nothing is settled, or where the stream is a new one and its sequences start again. */
async function startSequence(
  manager: JetStreamManager,
  spec: ConsumerSpec,
  lastSettled: LastSettled | undefined,
): Promise<number | undefined> {
  if (!lastSettled) return undefined;
  const { created, state } = await manager.streams.info(spec.stream);
  const isNewStream = Date.parse(created) > lastSettled.storedAtUnixMs || state.last_seq < lastSettled.streamSequence;
  return isNewStream ? undefined : lastSettled.streamSequence + 1;
}

function streamMissing({ stream }: ConsumerSpec): string {
  return `there is no stream ${stream}: run \`wg-keepalive setup\``;
}
