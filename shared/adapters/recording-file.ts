import { createHash } from 'node:crypto';
import { access, constants, type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, sep } from 'node:path';
import type { Connection } from '../domain/connection.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import {
  formatConnection,
  formatMessage,
  messageLineStart,
  parseHeader,
  parseLine,
  type RecordingHeader,
  type RecordingLine,
} from '../domain/recording.ts';
import type { StreamName } from '../domain/topology.ts';
import { BlockedGzipError, BlockedGzipWriter, readBlockedGzip } from './blocked-gzip.ts';

/** A recording that cannot be read; the message names file, place, fault and what to do. */
export class RecordingError extends Error {
  readonly code = 'RECORDING';

  constructor(path: string, message: string, options?: ErrorOptions) {
    super(`${path}: ${message}`, options);
    this.name = 'RecordingError';
  }
}

/** Writes next to `path` and takes its place once all is there: what has the name is complete. */
export class RecordingWriter {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #gzip: BlockedGzipWriter;
  readonly #hash = createHash('sha256');
  #lines = 0;

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
    this.#gzip = new BlockedGzipWriter(file);
  }

  /** @throws Error of the system, if the file cannot be made */
  static async create(path: string, header: RecordingHeader): Promise<RecordingWriter> {
    const writer = new RecordingWriter(path, await open(partialOf(path), 'w'));
    writer.#line(JSON.stringify(header));
    return writer;
  }

  /** In the order of each stream. */
  async messages(batch: Iterable<RecordedMessage>): Promise<void> {
    for (const message of batch) this.#line(formatMessage(message));
    await this.#gzip.flush();
  }

  async connection(connection: Connection): Promise<void> {
    this.#line(formatConnection(connection));
    await this.#gzip.flush();
  }

  async finish(): Promise<void> {
    const end = { lines: this.#lines, sha256: this.#hash.digest('hex') };
    this.#gzip.write(Buffer.from(`${JSON.stringify({ end })}\n`));
    await this.#gzip.end();
    await this.#file.sync();
    await this.#file.close();
    await rename(partialOf(this.#path), this.#path).catch(async (error: unknown) => {
      await rm(partialOf(this.#path), { force: true });
      throw error;
    });
  }

  /** Leaves nothing behind. */
  async abandon(): Promise<void> {
    await this.#file.close();
    await rm(partialOf(this.#path), { force: true });
  }

  #line(text: string): void {
    const bytes = Buffer.from(`${text}\n`);
    this.#hash.update(bytes);
    this.#gzip.write(bytes);
    this.#lines += 1;
  }
}

/**
 * Whether a recording may be written there, for those that work long before they write. Makes nothing.
 *
 * @throws Error whose message says what is in the way
 */
export async function checkRecordingPath(path: string): Promise<void> {
  const isFolder = path.endsWith(sep) || (await stat(path).catch(() => undefined))?.isDirectory() === true;
  if (isFolder) throw new Error('is a folder, want a file');
  await access(dirname(path), constants.W_OK).catch((cause: NodeJS.ErrnoException) => {
    throw new Error(`cannot be written: ${cause.message}`, { cause });
  });
}

function partialOf(path: string): string {
  return `${path}.partial`;
}

/** A recording; every method reads the file anew, streamed, and checks all of it on the way. */
export type Recording = {
  readonly header: RecordingHeader;
  /** In their order, in batches. @throws RecordingError */
  messages(stream: StreamName): AsyncIterable<readonly RecordedMessage[]>;
  /** @throws RecordingError */
  connections(): Promise<readonly Connection[]>;
};

/** @throws RecordingError if there is no such file, it is foreign, newer, cut off or altered */
export async function openRecording(path: string): Promise<Recording> {
  for await (const { header } of readLines(path, () => true)) {
    return {
      header,
      messages: (stream) => messagesOf(path, stream),
      connections: () => connectionsOf(path),
    };
  }
  throw new RecordingError(path, 'line 1 is missing: the header');
}

async function* messagesOf(path: string, stream: StreamName): AsyncGenerator<readonly RecordedMessage[]> {
  const start = messageLineStart(stream);
  for await (const { lines } of readLines(path, (text) => text.startsWith(start))) {
    const batch = lines.flatMap((line) => (line.kind === 'message' ? [line.message] : []));
    if (batch.length > 0) yield batch;
  }
}

async function connectionsOf(path: string): Promise<readonly Connection[]> {
  const connections: Connection[] = [];
  for await (const { lines } of readLines(path, (text) => text.startsWith('{"connection":'))) {
    for (const line of lines) if (line.kind === 'connection') connections.push(line.connection);
  }
  return connections;
}

/** `lines`: those that were wanted. */
type Lines = { readonly header: RecordingHeader; readonly lines: readonly RecordingLine[] };

/** Reads line by line, parses those that `wanted` picks, and holds the rest against the checksums. */
async function* readLines(path: string, wanted: (text: string) => boolean): AsyncGenerator<Lines> {
  const state = new LineReader(path, wanted);
  try {
    for await (const bytes of readBlockedGzip(path)) {
      const lines = state.take(bytes);
      if (lines !== undefined) yield lines;
    }
  } catch (error) {
    throw error instanceof RecordingError
      ? error
      : new RecordingError(path, explain(error, state.count), { cause: error });
  }
  state.finish();
}

const NEWLINE = 0x0a;
const END_LINE_START = '{"end":';

class LineReader {
  readonly #path: string;
  readonly #wanted: (text: string) => boolean;
  readonly #hash = createHash('sha256');
  #rest: Buffer = Buffer.alloc(0);
  #header: RecordingHeader | undefined;
  #isEnded = false;
  readonly #lastSequences = new Map<StreamName, number>();
  /** Complete lines so far. */
  count = 0;

  constructor(path: string, wanted: (text: string) => boolean) {
    this.#path = path;
    this.#wanted = wanted;
  }

  take(bytes: Buffer): Lines | undefined {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const end = all.lastIndexOf(NEWLINE) + 1;
    this.#rest = all.subarray(end);
    if (end === 0) return undefined;
    const texts = all.toString('utf8', 0, end - 1).split('\n');
    const lastText = texts.at(-1) ?? '';
    const hashed = lastText.startsWith(END_LINE_START) ? end - Buffer.byteLength(lastText) - 1 : end;
    this.#hash.update(all.subarray(0, hashed));
    return this.#parse(texts);
  }

  finish(): void {
    if (this.#rest.length > 0) throw this.#fault(this.count + 1, 'has no end');
    if (!this.#isEnded) throw this.#fault(this.count + 1, 'is missing: the recording has no end');
  }

  #parse(texts: readonly string[]): Lines {
    const lines: RecordingLine[] = [];
    for (const text of texts) {
      if (this.#isEnded) throw this.#fault(this.count + 1, 'comes after the end');
      this.count += 1;
      if (this.#header === undefined) this.#header = this.#readHeader(text);
      else if (text.startsWith(END_LINE_START)) this.#readEnd(text);
      else if (this.#wanted(text)) lines.push(this.#readLine(text));
    }
    return { header: this.#header as RecordingHeader, lines };
  }

  #readLine(text: string): RecordingLine {
    const line = parseLine(text);
    if ('error' in line) throw this.#fault(this.count, line.error);
    if (line.kind !== 'message') return line;
    const { stream, sequence } = line.message;
    const last = this.#lastSequences.get(stream) ?? 0;
    if (sequence <= last) {
      throw this.#fault(
        this.count,
        `sequence ${sequence} of ${stream}: want more than ${last}, that of the line before`,
      );
    }
    this.#lastSequences.set(stream, sequence);
    return line;
  }

  #readHeader(text: string): RecordingHeader {
    const header = parseHeader(text);
    if ('error' in header) throw this.#fault(1, header.error);
    return header;
  }

  #readEnd(text: string): void {
    const line = parseLine(text);
    if ('error' in line || line.kind !== 'end')
      throw this.#fault(this.count, 'error' in line ? line.error : 'is no end');
    const lines = this.count - 1;
    if (line.end.lines !== lines) {
      throw this.#fault(
        this.count,
        `the end counts ${line.end.lines} lines, ${lines} are there: some were added or removed`,
      );
    }
    if (line.end.sha256 !== this.#hash.digest('hex')) {
      throw this.#fault(this.count, 'the end has another SHA-256 than the lines before it: some were altered');
    }
    this.#isEnded = true;
  }

  #fault(line: number, message: string): RecordingError {
    return new RecordingError(this.#path, `line ${line}: ${message}`);
  }
}

const RECORD_AGAIN = 'copy or export it again';

function explain(error: unknown, lines: number): string {
  if (error instanceof BlockedGzipError) {
    if (error.fault === 'foreign') {
      return `not a recording of wg-keepalive: ${error.message}; want a file that export, lab --export or import wrote`;
    }
    const what = error.fault === 'truncated' ? 'cut off' : 'damaged';
    return `${what}: ${error.message}, after ${lines} complete lines; ${RECORD_AGAIN}`;
  }
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EISDIR') return 'is a folder, want a file';
  return message;
}
