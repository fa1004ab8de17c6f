import type { CloudEvent } from '../domain/cloud-event.ts';
import type { ConnectionRef } from '../domain/connection.ts';
import type { JudgedBy, OutcomeName } from '../domain/decision.ts';
import type { FunctionSettings } from '../domain/function-settings.ts';
import type { ConsumerSpec, StreamName } from '../domain/topology.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';

/** An event type that a function takes, with the JSON Schema that its data is checked against. */
export type EventContract = {
  readonly type: string;
  readonly schema: object;
  /**
   * The names that the data gives to what it is about, as its subject must end with. The bus says who may publish
   * where by subject only: without this, the owner of one subject could speak of what is another's.
   */
  about?(data: unknown): readonly string[];
};

/**
 * What a function says and reads on the bus besides what its consumers bring it, its decisions and its dead letters.
 * Its NATS user may do this and no more.
 */
export type BusNeeds = {
  /** Subjects that it publishes to. */
  readonly says?: readonly string[];
  /** Streams of which it asks for the last messages. */
  readonly reads?: readonly StreamName[];
  /** It reads what others keep in the bucket. */
  readonly readsState?: true;
  /** It keeps state in the bucket. */
  readonly keepsState?: true;
};

/** What a function is, to those who run, document, deploy and permit it. */
export type FunctionManifest = {
  readonly name: string;
  /** One sentence, in the third person. */
  readonly summary: string;
  readonly accepts: readonly EventContract[];
  readonly consumers: readonly ConsumerSpec[];
  readonly needs?: BusNeeds;
  /** One attempt's longest time; under half the ack wait, so that a slow attempt is over before a redelivery. */
  readonly attemptTimeoutMs: number;
  /**
   * `ack`: the next event of the same kind repairs what this one could not do (observations carry level).
   * `retry`: the event comes again after a delay.
   */
  readonly onFailure: 'ack' | 'retry';
};

/** How an event ended, for the metric, the log and the decision stream. */
export type Outcome = {
  readonly outcome: OutcomeName;
  /** CamelCase word, as Kubernetes reasons are. */
  readonly reason: string;
  readonly connection?: ConnectionRef;
  readonly interfaceId?: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** For the decision: a replay judges by the same. */
  readonly judgedBy?: JudgedBy;
  /** Only with `failed` and `onFailure: 'retry'`: not before this long. */
  readonly retryAfterMs?: number;
  /** Only with `failed`: another event, a timer say, will bring it back; this one need not come again. */
  readonly comesBack?: boolean;
  /** Publish a decision though the outcome is one that is only counted (a listing change). */
  readonly notable?: boolean;
  /** Changes of value that were told before this event and will never be shown, as the API refused them. */
  readonly superseded?: number;
  /** Of an event that was to replace what is shown: how old that was. */
  readonly shownAgeMs?: number;
};

export type EventContext<Data = unknown> = {
  /** For calls: aborts when the attempt's time is over or the process stops. Its time runs from its first use. */
  readonly attemptSignal: () => AbortSignal;
  /** The same for another attempt at the event, after a conflict say, with time of its own. */
  readonly nextAttempt: () => AbortSignal;
  readonly consumer: string;
  readonly streamSequence: number;
  /** The server's time of the event. */
  readonly storedAtUnixMs: number;
  readonly deliveryCount: number;
  /** Events that wait behind this one. */
  readonly pending: number;
  /** Nobody else handled an event of this consumer since this process did: what it remembers is still true. */
  readonly uninterrupted: boolean;
  /**
   * The valid event that came before this one on its subject, whoever handled it, if the stream still keeps it.
   * The manifest must say that it reads the stream. Rejects with BusError.
   */
  readonly previous: () => Promise<CloudEvent<Data> | undefined>;
};

export type EventHandler<Data> = (event: CloudEvent<Data>, context: EventContext<Data>) => Promise<Outcome>;

/** A stateless function: what it keeps between events is a cache that may vanish at any time. */
export type FunctionInstance<Data> = {
  readonly handle: EventHandler<Data>;
  /** Runs once before the first event, and again until it succeeds. */
  readonly start?: (signal: AbortSignal) => Promise<void>;
};

export type FunctionDefinition<Data = unknown> = {
  readonly manifest: FunctionManifest;
  readonly create: (ports: FunctionPorts, settings: FunctionSettings) => FunctionInstance<Data>;
};

/** Checks the manifest where a slip would only show in production. */
export function defineFunction<Data>(definition: FunctionDefinition<Data>): FunctionDefinition {
  const { name, consumers, attemptTimeoutMs } = definition.manifest;
  for (const consumer of consumers) {
    if (attemptTimeoutMs * 2 >= consumer.ackWaitMs) {
      throw new Error(
        `function ${name}: attemptTimeoutMs ${attemptTimeoutMs} is not under half the ack wait of ${consumer.durable} (${consumer.ackWaitMs})`,
      );
    }
  }
  return definition as FunctionDefinition;
}
