import { KubernetesConnectionStore } from '../adapters/kubernetes-connection-store.ts';
import { NatsHistory } from '../adapters/nats-history.ts';
import { NatsLink } from '../adapters/nats-link.ts';
import { openRecording, type Recording, RecordingError } from '../adapters/recording-file.ts';
import { systemClock } from '../adapters/system-clock.ts';
import { type Connection, type ConnectionRef, connectionKey } from '../domain/connection.ts';
import type { EventPlace } from '../domain/event-place.ts';
import { type RecordedMessage, recordedMessage } from '../domain/recorded-message.ts';
import type { RecordedSettings } from '../domain/recording.ts';
import { fixBound, type ReplayWindow, windowNeedsEnd } from '../domain/replay-window.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import type { StreamName } from '../domain/topology.ts';
import { StoreError } from '../ports/connection-store.ts';
import { BusError } from '../ports/event-bus.ts';
import type { Logger } from '../ports/telemetry.ts';
import { holdsPlace, inWindow, settingsDecidedBy, startOfWindow, windowOfHistory } from '../runtime/recorded-window.ts';
import type { OptionsOf } from './command-table.ts';
import { connectKubernetes } from './connect-kubernetes.ts';
import { untilConnected } from './connect-nats.ts';
import { StartError, UsageError } from './errors.ts';
import { natsFromOptions } from './nats-from-options.ts';

/** A window of events and what goes with them, from NATS or from a file: a replay does not see which. */
export type ReplaySource = {
  /** For people. */
  readonly name: string;
  readonly isLive: boolean;
  /** How gateways and functions were set, as far as it is known. */
  readonly settings: RecordedSettings;
  /** The stream has nothing before the window. */
  readonly fromStreamStart: boolean;
  /** What is not in it though the window asks for it. */
  readonly notes: readonly string[];
  /** In their order; may be read more than once. */
  messages(stream: StreamName, signal: AbortSignal): AsyncIterable<readonly RecordedMessage[]>;
  /** As it is now, or was when the file was written, with managedFields. @throws StartError without Kubernetes */
  connection(ref: ConnectionRef): Promise<Connection | undefined>;
  /** What there is whatever the window, for people: `there are #1 … to #9 …, of NAMESPACE/NAME, …`. */
  contents(): Promise<string>;
  close(): Promise<void>;
};

export type SourceOptions = Pick<OptionsOf<'replay'>, 'recordingFile' | 'natsServers' | NatsKeys> & {
  readonly window: ReplayWindow;
  /** Live only: goes on with what comes until the signal aborts. */
  readonly follow: boolean;
  readonly log: Logger;
  /** Ends the opening, too. */
  readonly stop: AbortSignal;
};
type NatsKeys = Exclude<keyof Parameters<typeof natsFromOptions>[0], 'natsServers'>;

/** @throws StartError or RecordingError if it cannot be opened, or what `stop` was aborted with */
export async function openSource(options: SourceOptions): Promise<ReplaySource> {
  const { recordingFile, follow } = options;
  if (recordingFile === undefined) return openLive(options);
  if (follow) throw new UsageError('--follow: a file does not grow; leave --file or --follow out');
  return openFile(recordingFile, options);
}

async function openFile(path: string, { window, stop }: Pick<SourceOptions, 'window' | 'stop'>): Promise<ReplaySource> {
  const recording = await openRecording(path);
  const { header } = recording;
  const endUnixMs = windowNeedsEnd(window) ? await endOf(recording, stop) : 0;
  const settings = { ...header.settings, ...(await settingsWithin(recording, window, endUnixMs, stop)) };
  stop.throwIfAborted();
  let connections: Promise<readonly Connection[]> | undefined;
  return {
    name: path,
    isLive: false,
    settings,
    fromStreamStart:
      header.streamStart !== undefined && holdsPlace(fixBound(window.from, endUnixMs), header.streamStart),
    notes: header.notes,
    messages: (stream, signal) => inWindow(recording.messages(stream), window, endUnixMs, signal),
    async connection(ref) {
      connections ??= recording.connections();
      return (await connections).findLast(({ metadata }) => connectionKey(metadata) === connectionKey(ref));
    },
    async contents() {
      const names = new Names();
      let bounds: { readonly first: EventPlace; last: EventPlace } | undefined;
      for await (const batch of recording.messages('OBSERVATIONS')) {
        for (const message of batch) {
          names.note(message);
          bounds ??= { first: message, last: message };
          bounds.last = message;
        }
      }
      return describeContents(bounds, names);
    },
    close: async () => {},
  };
}

/** The header tells what held at the start of the file; what begins later may have been judged by something else. */
async function settingsWithin(
  recording: Recording,
  window: ReplayWindow,
  endUnixMs: number,
  stop: AbortSignal,
): Promise<RecordedSettings | undefined> {
  if (window.from === undefined || recording.header.source === 'capture') return undefined;
  const startUnixMs = await startOfWindow(inWindow(recording.messages('OBSERVATIONS'), window, endUnixMs, stop));
  return settingsDecidedBy(recording.messages('DECISIONS'), startUnixMs);
}

async function endOf(recording: Recording, stop: AbortSignal): Promise<number> {
  let endUnixMs = 0;
  for await (const batch of recording.messages('OBSERVATIONS')) {
    stop.throwIfAborted();
    endUnixMs = batch.at(-1)?.storedAtUnixMs ?? endUnixMs;
  }
  return endUnixMs;
}

/** @throws StartError if NATS cannot be reached */
export async function connectHistory(
  flags: Pick<SourceOptions, 'natsServers' | NatsKeys>,
  { log, stop }: Pick<SourceOptions, 'log' | 'stop'>,
): Promise<NatsLink> {
  const nats = natsFromOptions(flags, { role: 'replay' });
  const link = NatsLink.open(nats, systemClock, log);
  try {
    await untilConnected(link, nats.servers, { stop });
    return link;
  } catch (error) {
    await link.close();
    throw error;
  }
}

async function openLive(options: SourceOptions): Promise<ReplaySource> {
  const link = await connectHistory(options, options);
  try {
    return await liveSource(link, options);
  } catch (error) {
    await link.close();
    throw error;
  }
}

async function liveSource(link: NatsLink, { window, follow, natsServers, stop }: SourceOptions): Promise<ReplaySource> {
  const history = new NatsHistory(link, systemClock);
  const past = await windowOfHistory(history, window, { clock: systemClock, follow });
  const settings = await past.settings(stop);
  stop.throwIfAborted();
  let store: Promise<{ get: KubernetesConnectionStore['get']; close(): void }> | undefined;
  return {
    name: `OBSERVATIONS of ${natsServers.join(',')}`,
    isLive: true,
    settings,
    fromStreamStart: past.streamStart !== undefined,
    notes: past.notes,
    messages: past.messages,
    async connection(ref) {
      store ??= openStore();
      return (await store).get(ref);
    },
    async contents() {
      const names = new Names();
      for await (const batch of history.read({ stream: 'GATEWAYS', from: { sequence: 1 } }, stop)) {
        for (const message of batch) names.note(recordedMessage(message));
      }
      return describeContents(await history.bounds('OBSERVATIONS'), names);
    },
    async close() {
      await link.close();
      await store?.then(
        ({ close }) => close(),
        () => {}, // it was never open, and that was said
      );
    },
  };
}

async function openStore() {
  const client = await connectKubernetes();
  const store = new KubernetesConnectionStore(client);
  return { get: store.get.bind(store), close: () => client.close() };
}

const MAX_NAMES = 8;

/** Connections that messages are about. */
class Names {
  readonly #names = new Set<string>();

  note({ event }: RecordedMessage): void {
    const { namespace, connection } = (event?.data ?? {}) as Record<string, unknown>;
    if (namespace !== undefined && connection !== undefined) this.#names.add(`${namespace}/${connection}`);
  }

  toString(): string {
    const sorted = [...this.#names].sort();
    const more = sorted.length > MAX_NAMES ? [`${sorted.length - MAX_NAMES} more`] : [];
    return [...sorted.slice(0, MAX_NAMES), ...more].join(', ');
  }
}

function describeContents(bounds: { readonly first: EventPlace; readonly last: EventPlace } | undefined, names: Names) {
  if (bounds === undefined) return 'there is none at all';
  const [first, last] = [bounds.first, bounds.last].map(
    ({ sequence, storedAtUnixMs }) => `#${sequence} ${formatRfc3339Ms(storedAtUnixMs)}`,
  );
  const about = names.toString();
  return `there are ${first} to ${last}${about && `, of ${about}`}`;
}

/** What is wrong with a file or with NATS, the user can mend: one line, no stack. */
export async function reportingFaults<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RecordingError || error instanceof BusError || error instanceof StoreError) {
      throw new StartError(error.message, { cause: error });
    }
    throw error;
  }
}
