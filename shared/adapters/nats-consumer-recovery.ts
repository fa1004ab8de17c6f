import type { StreamInfo } from '@nats-io/jetstream';
import { jetstreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from 'nats';
import { type ConsumerSpec, partitionsIn } from '../domain/topology.ts';
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
    const stream = await manager.streams.info(spec.stream);
    const partitions = partitionsIn(stream.config.subject_transform?.dest ?? '');
    if (partitions !== undefined && spec.partition !== undefined && spec.partition >= partitions) {
      return `stream ${spec.stream} has ${partitions} partitions now, none of them ${spec.partition}: setup was run by another release`;
    }
    await manager.consumers.add(spec.stream, consumerConfig(spec, startSequence(stream, lastSettled)));
    return undefined;
  } catch (error) {
    if (isFault(error, STREAM_NOT_FOUND)) return streamMissing(spec);
    if (isFault(error, ...CONSUMER_EXISTS)) return undefined;
    throw error;
  }
}

/** `undefined` (all) where nothing is settled, or where the stream is a new one and its sequences start again. */
function startSequence({ created, state }: StreamInfo, lastSettled: LastSettled | undefined): number | undefined {
  if (!lastSettled) return undefined;
  const isNewStream = Date.parse(created) > lastSettled.storedAtUnixMs || state.last_seq < lastSettled.streamSequence;
  return isNewStream ? undefined : lastSettled.streamSequence + 1;
}

function streamMissing({ stream }: ConsumerSpec): string {
  return `there is no stream ${stream}: run \`wg-keepalive setup\``;
}
