import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { LineOutput } from '../../shared/cli/line-output.ts';
import { openSource, type ReplaySource } from '../../shared/cli/replay-source.ts';
import { type RecordingParts, writeRecording } from '../../shared/cli/write-recording.ts';
import type { ReplayWindow } from '../../shared/domain/replay-window.ts';
import type { FunctionWorld } from './function-world.ts';
import { silentLogger } from './silent-logger.ts';

export type Workspace = AsyncDisposable & { readonly path: (name: string) => string };

export async function workspace(): Promise<Workspace> {
  const folder = await mkdtemp(join(tmpdir(), 'wgk-replay-'));
  return { path: (name) => join(folder, name), [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

/** Writes all that a world's streams and API hold. */
export async function record(world: FunctionWorld, path: string, parts: Partial<RecordingParts> = {}): Promise<void> {
  await writeRecording(path, {
    source: 'lab',
    history: new EmbeddedHistory(world.broker),
    connection: async (ref) => world.kubernetes.get(ref),
    ...parts,
  });
}

/** Opens a recording as the commands do. */
export function openFile(path: string, window: ReplayWindow = {}): Promise<ReplaySource> {
  const none = { follow: false, log: silentLogger, stop: NEVER, natsServers: [], ...NO_NATS };
  return openSource({ recordingFile: path, window, ...none });
}

const NO_NATS = {
  natsCredentialsFile: undefined,
  natsUser: undefined,
  natsPasswordFile: undefined,
  natsCaFile: undefined,
  natsCertificateFile: undefined,
  natsKeyFile: undefined,
};

/** What `work` writes to its output. */
export async function written<T>(work: (output: LineOutput) => Promise<T>): Promise<{ text: string; result: T }> {
  const stream = new PassThrough();
  const reading = text(stream);
  const result = await work(new LineOutput(stream));
  stream.end();
  return { text: await reading, result };
}

export const NEVER = new AbortController().signal;
