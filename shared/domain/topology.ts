import type { SubjectTransform } from './subject-pattern.ts';

/**
 * Streams and consumers as data: setup creates them on NATS, the embedded bus lives by them,
 * and a drift between the two cannot arise.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MIB = 1024 * 1024;

/** Every tunnel of a Connection falls in one partition; each partition is handled in order by one replica at a time. */
export const PARTITIONS = 16;

export const STATE_BUCKET = 'tunnel-state';

export type StreamName = 'OBSERVATIONS' | 'GATEWAYS' | 'CHANGES' | 'TIMERS' | 'DECISIONS' | 'DEAD_LETTERS';

export type StreamSpec = {
  readonly name: StreamName;
  /** What is published to it. */
  readonly subjects: readonly string[];
  readonly description: string;
  /** How a published subject is stored. */
  readonly transform?: SubjectTransform;
  readonly republish?: SubjectTransform;
  readonly maxAgeMs?: number;
  readonly maxBytes: number;
  readonly maxMessagesPerSubject?: number;
  readonly duplicateWindowMs?: number;
  readonly compressed?: boolean;
  /** `first_seq` is the Unix time in ms at creation, so that sequences grow over a re-created stream too. */
  readonly firstSequenceFromClock?: boolean;
  readonly schedules?: boolean;
};

const DUPLICATE_WINDOW_MS = 5 * MINUTE_MS;

const TIMERS_MAX_AGE_MS = HOUR_MS;
/** A timer that is armed for later than the age of its stream expires there and never comes; half leaves time to come late. */
export const LONGEST_TIMER_MS = TIMERS_MAX_AGE_MS / 2;

/** What is kept of the past, for replay and explain, unless setup is told otherwise. */
export const HISTORY = {
  maxAgeMs: DAY_MS,
  /** A stream remembers the ids of its messages this long, and may not forget the messages before. */
  minAgeMs: DUPLICATE_WINDOW_MS,
  observationsMaxBytes: 2048 * MIB,
  decisionsMaxBytes: 512 * MIB,
} as const;

export const STREAMS: readonly StreamSpec[] = [
  {
    name: 'OBSERVATIONS',
    subjects: ['keepalive.*.*.*'],
    description: 'What the gateways see of each tunnel, and what the functions say of its listing',
    transform: observationTransform(PARTITIONS),
    republish: {
      source: 'observations.*.*.*.*',
      destination: 'live.{{wildcard(2)}}.{{wildcard(3)}}.{{wildcard(4)}}',
    },
    maxAgeMs: HISTORY.maxAgeMs,
    maxBytes: HISTORY.observationsMaxBytes,
    duplicateWindowMs: DUPLICATE_WINDOW_MS,
    compressed: true,
  },
  {
    name: 'GATEWAYS',
    subjects: ['gateways.*.*'],
    description: 'The last announcement of each gateway; its sequence is the fencing token of the run',
    maxBytes: 64 * MIB,
    maxMessagesPerSubject: 1,
    firstSequenceFromClock: true,
  },
  {
    name: 'CHANGES',
    subjects: ['changes.*.*.*'],
    description: 'Kubernetes watch events of what the functions read',
    maxAgeMs: HOUR_MS,
    maxBytes: 512 * MIB,
    duplicateWindowMs: DUPLICATE_WINDOW_MS,
  },
  {
    name: 'TIMERS',
    subjects: ['timers.*.*.*', 'due.*.*.*'],
    description: 'Scheduled messages: timers.<what> becomes due.<what>',
    maxAgeMs: TIMERS_MAX_AGE_MS,
    maxBytes: 64 * MIB,
    maxMessagesPerSubject: 1,
    schedules: true,
  },
  {
    name: 'DECISIONS',
    subjects: ['decisions.*.*'],
    description: 'What the functions made of the events',
    republish: { source: 'decisions.*.*', destination: 'live.decisions.{{wildcard(1)}}.{{wildcard(2)}}' },
    maxAgeMs: HISTORY.maxAgeMs,
    maxBytes: HISTORY.decisionsMaxBytes,
    duplicateWindowMs: DUPLICATE_WINDOW_MS,
    compressed: true,
  },
  {
    name: 'DEAD_LETTERS',
    subjects: [
      'dead.*',
      '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>',
      '$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>',
    ],
    description: 'Events that no function could take, with the reason',
    maxAgeMs: 7 * DAY_MS,
    maxBytes: 256 * MIB,
  },
];

/** The streams as a release with another number of partitions has them. */
export function streamsWith(partitions: number): readonly StreamSpec[] {
  const transform = observationTransform(partitions);
  return STREAMS.map((spec) => (spec.transform === undefined ? spec : { ...spec, transform }));
}

function observationTransform(partitions: number): SubjectTransform {
  const source = 'keepalive.*.*.*';
  const partition = `{{partition(${partitions},1,2)}}`;
  return { source, destination: `observations.${partition}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}` };
}

/** What {@link observationTransform} was told, from the destination that came of it; `undefined` for any other. */
export function partitionsIn(destination: string): number | undefined {
  const partitions = destination.match(/^observations\.\{\{partition\((\d+),1,2\)}}\./)?.[1];
  return partitions === undefined ? undefined : Number(partitions);
}

/**
 * A durable pull consumer with explicit acks that all replicas of a function share.
 * `maxAckPending: 1` keeps order: nobody gets the next event before this one is settled.
 */
export type ConsumerSpec = {
  readonly durable: string;
  readonly stream: StreamName;
  readonly filterSubjects: readonly string[];
  /** The one that it is for, where the stream is parted. */
  readonly partition?: number;
  readonly maxAckPending: number;
  readonly ackWaitMs: number;
  /** Deliveries of one message before it becomes a dead letter. */
  readonly maxDeliver: number;
};

export const ACK_WAIT_MS = 5_000;
/** Only what ends a process comes near this: whatever a handler says of an event settles it much earlier. */
const MAX_DELIVER = 20;
/** A level-based change is tried again, ever more slowly, for as long as its stream keeps it. */
const MAX_DELIVER_SHARED = 120;

/** One consumer a partition of OBSERVATIONS, `<functionName>-<partition>`. */
export function partitionConsumers(functionName: string, partitions = PARTITIONS): readonly ConsumerSpec[] {
  return Array.from({ length: partitions }, (_, partition) => ({
    durable: `${functionName}-${partition}`,
    stream: 'OBSERVATIONS',
    filterSubjects: [`observations.${partition}.*.*.*`],
    partition,
    maxAckPending: 1,
    ackWaitMs: ACK_WAIT_MS,
    maxDeliver: MAX_DELIVER,
  }));
}

/** One level-based consumer that all replicas share; conflicts are settled by resourceVersion. */
export function sharedConsumer(durable: string, stream: StreamName, filterSubjects: readonly string[]): ConsumerSpec {
  return { durable, stream, filterSubjects, maxAckPending: 64, ackWaitMs: ACK_WAIT_MS, maxDeliver: MAX_DELIVER_SHARED };
}
