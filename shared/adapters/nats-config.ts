import type { ConsumerConfig, StreamConfig } from '@nats-io/jetstream';
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
  StoreCompression,
} from '@nats-io/jetstream';
import { nanos } from 'nats';
import type { ConsumerSpec, StreamSpec } from '../domain/topology.ts';
import { PRIORITY_GROUP } from './nats-pull-priority.ts';

/** For a request that an event waits for: under half an ack wait. */
export const API_TIMEOUT_MS = 2_000;
/** For making streams, which in a cluster takes an election. */
export const SETUP_TIMEOUT_MS = 10_000;

/** A stream of the topology in the server's words, without what only creation may set. */
export function streamConfig(
  spec: StreamSpec,
  {
    replicas,
    maxBytes,
    metadata,
  }: { readonly replicas: number; readonly maxBytes: number; readonly metadata: Readonly<Record<string, string>> },
): Partial<StreamConfig> & { readonly name: string } {
  const { transform, republish } = spec;
  return {
    name: spec.name,
    description: spec.description,
    subjects: [...spec.subjects],
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.Old,
    num_replicas: replicas,
    max_bytes: maxBytes,
    max_age: nanos(spec.maxAgeMs ?? 0),
    max_msgs_per_subject: spec.maxMessagesPerSubject ?? -1,
    compression: spec.compressed ? StoreCompression.S2 : StoreCompression.None,
    allow_direct: true,
    metadata: { ...metadata },
    ...(spec.duplicateWindowMs !== undefined && { duplicate_window: nanos(spec.duplicateWindowMs) }),
    ...(spec.schedules && { allow_msg_schedules: true }),
    ...(transform && { subject_transform: { src: transform.source, dest: transform.destination } }),
    ...(republish && { republish: { src: republish.source, dest: republish.destination } }),
  };
}

/** By this a consumer is known as one that setup made, and may remove when no function has it any more. */
export const MANAGED_METADATA = 'wg-keepalive.managed';

/** A consumer of the topology in the server's words; `startSequence` where it does not begin with the first message. */
export function consumerConfig(spec: ConsumerSpec, startSequence?: number): Partial<ConsumerConfig> {
  const [only, ...more] = spec.filterSubjects;
  return {
    durable_name: spec.durable,
    name: spec.durable,
    ack_policy: AckPolicy.Explicit,
    replay_policy: ReplayPolicy.Instant,
    ack_wait: nanos(spec.ackWaitMs),
    max_ack_pending: spec.maxAckPending,
    max_deliver: spec.maxDeliver,
    ...(spec.maxAckPending === 1 && {
      priority_policy: 'prioritized',
      priority_groups: [PRIORITY_GROUP],
    }),
    metadata: { [MANAGED_METADATA]: 'true' },
    // The API with a single filter has the filter in its subject, where permissions can see it.
    ...(only !== undefined && more.length === 0
      ? { filter_subject: only }
      : { filter_subjects: [...spec.filterSubjects] }),
    ...(startSequence === undefined
      ? { deliver_policy: DeliverPolicy.All }
      : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: startSequence }),
  };
}
