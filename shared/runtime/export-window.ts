import { type Connection, type ConnectionRef, connectionKey } from '../domain/connection.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import type { ReplayWindow } from '../domain/replay-window.ts';
import type { HistoryWindow } from './recorded-window.ts';

/** Where a recording goes. */
export type RecordingSink = {
  messages(batch: Iterable<RecordedMessage>): Promise<void>;
  connection(connection: Connection): Promise<void>;
};

export type Disguise = {
  message(message: RecordedMessage): RecordedMessage;
  connection(connection: Connection): Connection;
};

export type ExportCounts = {
  readonly observations: number;
  readonly decisions: number;
  readonly announcements: number;
  readonly connections: number;
};

/**
 * Writes a window of OBSERVATIONS, the decisions made meanwhile, the announcements of the gateways and the Connections.
 *
 * @param open - opens a window of the streams
 */
export async function exportWindow(
  window: ReplayWindow,
  parts: {
    readonly open: (window: ReplayWindow) => Promise<Pick<HistoryWindow, 'messages'>>;
    readonly connection: (ref: ConnectionRef) => Promise<Connection | undefined>;
    readonly sink: RecordingSink;
    readonly disguise?: Disguise;
    readonly signal: AbortSignal;
    readonly onBatch?: (batch: readonly RecordedMessage[]) => void;
  },
): Promise<ExportCounts> {
  const { open, connection, sink, signal, onBatch } = parts;
  const { disguise = { message: (message) => message, connection: (one) => one } } = parts;
  const refs = new Map<string, ConnectionRef>();
  let first: number | undefined;
  let last = 0;

  async function copy(messages: AsyncIterable<readonly RecordedMessage[]>, seen: (message: RecordedMessage) => void) {
    let count = 0;
    for await (const batch of messages) {
      count += batch.length;
      for (const message of batch) seen(message);
      await sink.messages(batch.map((message) => disguise.message(message)));
      onBatch?.(batch);
    }
    return count;
  }
  const note = ({ event }: RecordedMessage) => {
    const ref = refOf(event?.data);
    if (ref !== undefined) refs.set(connectionKey(ref), ref);
  };

  const observations = await copy((await open(window)).messages('OBSERVATIONS', signal), (message) => {
    note(message);
    first ??= message.storedAtUnixMs;
    last = Math.max(last, message.storedAtUnixMs);
  });
  const { connection: only } = window;
  const meanwhile: ReplayWindow = {
    ...(only && { connection: only }),
    from: { kind: 'time', unixMs: first ?? 0 },
    to: { kind: 'time', unixMs: last },
  };
  const decisions = await copy((await open(meanwhile)).messages('DECISIONS', signal), note);
  const announced = await open(only ? { connection: only } : {});
  const announcements = await copy(announced.messages('GATEWAYS', signal), note);
  let connections = 0;
  for (const ref of refs.values()) {
    const found = signal.aborted ? undefined : await connection(ref);
    if (found === undefined) continue;
    await sink.connection(disguise.connection(found));
    connections += 1;
  }
  return { observations, decisions, announcements, connections };
}

function refOf(data: unknown): ConnectionRef | undefined {
  const { namespace, connection } = (data ?? {}) as { readonly namespace?: unknown; readonly connection?: unknown };
  return typeof namespace === 'string' && typeof connection === 'string' ? { namespace, name: connection } : undefined;
}
