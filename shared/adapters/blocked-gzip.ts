import { type FileHandle, open } from 'node:fs/promises';
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib';

/**
 * Blocked gzip (BGZF): gzip members of at most 64 KiB, each of which tells its length and has its own checksum, and an
 * empty one at the end. `zcat` reads it like any gzip file; damage can be told to the block, a missing end is seen.
 *
 * @see https://samtools.github.io/hts-specs/SAMv1.pdf section 4.1
 */

/** What bgzip puts into a block: leaves room for what does not compress. */
const MAX_PLAIN_BYTES = 0xff00;
const HEADER_BYTES = 18;
const TRAILER_BYTES = 8;
const END_BLOCK = Buffer.from('1f8b08040000000000ff0600424302001b0003000000000000000000', 'hex');
/** Up to the length: magic, deflate, extra field of 6 bytes, subfield "BC" of 2 bytes. */
const HEADER_START = END_BLOCK.subarray(0, HEADER_BYTES - 2);
const READ_BYTES = 64 * 1024;
const LEVEL = 5;

/** The file is not what it should be; the message begins with the place. */
export class BlockedGzipError extends Error {
  readonly code = 'RECORDING_DAMAGED';
  /** `foreign`: not of this kind at all. */
  readonly fault: 'foreign' | 'truncated' | 'damaged';
  /** Where in the file. */
  readonly offset: number;

  constructor(fault: BlockedGzipError['fault'], offset: number, message: string, options?: ErrorOptions) {
    super(`${message} (byte ${offset})`, options);
    this.name = 'BlockedGzipError';
    this.fault = fault;
    this.offset = offset;
  }
}

export class BlockedGzipWriter {
  readonly #file: Pick<FileHandle, 'writev' | 'writeFile'>;
  readonly #plain = Buffer.allocUnsafe(MAX_PLAIN_BYTES);
  #length = 0;
  #ready: Buffer[] = [];

  constructor(file: Pick<FileHandle, 'writev' | 'writeFile'>) {
    this.#file = file;
  }

  /** Takes the bytes at once; {@link flush} now and then keeps what waits for the disk small. */
  write(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      const count = Math.min(bytes.length - at, MAX_PLAIN_BYTES - this.#length);
      this.#plain.set(bytes.subarray(at, at + count), this.#length);
      this.#length += count;
      at += count;
      if (this.#length === MAX_PLAIN_BYTES) this.#closeBlock();
    }
  }

  /** Writes all complete blocks. */
  async flush(): Promise<void> {
    const ready = this.#ready;
    this.#ready = [];
    if (ready.length === 0) return;
    const bytes = ready.reduce((sum, block) => sum + block.length, 0);
    const { bytesWritten } = await this.#file.writev(ready);
    // A disk that is nearly full takes what fits and calls it no error: the rest gets its place, or the reason why not.
    if (bytesWritten < bytes) await this.#file.writeFile(Buffer.concat(ready).subarray(bytesWritten));
  }

  async end(): Promise<void> {
    this.#closeBlock();
    this.#ready.push(END_BLOCK);
    await this.flush();
  }

  #closeBlock(): void {
    if (this.#length === 0) return;
    const plain = this.#plain.subarray(0, this.#length);
    this.#length = 0;
    let packed = deflateRawSync(plain, { level: LEVEL });
    if (packed.length > MAX_PLAIN_BYTES) packed = deflateRawSync(plain, { level: 0 });
    const block = Buffer.allocUnsafe(HEADER_BYTES + packed.length + TRAILER_BYTES);
    HEADER_START.copy(block);
    block.writeUInt16LE(block.length - 1, HEADER_START.length);
    packed.copy(block, HEADER_BYTES);
    block.writeUInt32LE(crc32(plain), HEADER_BYTES + packed.length);
    block.writeUInt32LE(plain.length, HEADER_BYTES + packed.length + 4);
    this.#ready.push(block);
  }
}

/**
 * The plain bytes of a file, some blocks at a time: what a reader makes of them must not outlive young garbage.
 *
 * @throws BlockedGzipError that names the block and the byte; nothing of a damaged block is given out
 */
export async function* readBlockedGzip(path: string): AsyncGenerator<Buffer> {
  const file = await open(path);
  try {
    let rest: Buffer = Buffer.alloc(0);
    let offset = 0;
    let block = 0;
    let isEnded = false;
    for (;;) {
      const chunk = Buffer.allocUnsafe(READ_BYTES);
      const { bytesRead } = await file.read(chunk, 0, READ_BYTES);
      if (bytesRead === 0) break;
      rest = rest.length === 0 ? chunk.subarray(0, bytesRead) : Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
      const plains: Buffer[] = [];
      let at = 0;
      let fault: unknown;
      try {
        for (;;) {
          if (isEnded && at < rest.length) throw new BlockedGzipError('damaged', offset, SOMETHING_FOLLOWS);
          const size = blockSize(rest, at, offset, block);
          if (size === undefined) break;
          const plain = unpack(rest.subarray(at, at + size), offset, block);
          isEnded = plain.length === 0;
          if (!isEnded) plains.push(plain);
          at += size;
          offset += size;
          block += 1;
        }
      } catch (error) {
        fault = error; // what is whole before it goes first, so that the reader knows how far it came
      }
      rest = rest.subarray(at);
      if (plains.length > 0) yield Buffer.concat(plains);
      if (fault !== undefined) throw fault;
    }
    if (rest.length > 0) throw new BlockedGzipError('truncated', offset, `block ${block} is cut off`);
    if (block === 0) throw new BlockedGzipError('foreign', 0, 'the file is empty');
    if (!isEnded) throw new BlockedGzipError('truncated', offset, `the end is missing after block ${block - 1}`);
  } finally {
    await file.close();
  }
}

/** Length of the block that starts at `at`; `undefined` while it is not all there. */
function blockSize(bytes: Buffer, at: number, offset: number, block: number): number | undefined {
  const there = Math.min(bytes.length - at, HEADER_START.length);
  if (there === 0) return undefined;
  if (bytes.compare(HEADER_START, 0, there, at, at + there) !== 0) {
    throw block === 0
      ? new BlockedGzipError('foreign', offset, describeStart(bytes))
      : new BlockedGzipError('damaged', offset, `block ${block} does not start like one`);
  }
  if (bytes.length - at < HEADER_BYTES) return undefined;
  const size = bytes.readUInt16LE(at + HEADER_START.length) + 1;
  if (size < END_BLOCK.length)
    throw new BlockedGzipError('damaged', offset, `block ${block} says it has ${size} bytes`);
  return bytes.length - at < size ? undefined : size;
}

const SOMETHING_FOLLOWS = 'something follows the end: another recording, or what is none';
const CAPTURE_MAGICS = ['d4c3b2a1', 'a1b2c3d4', '4d3cb2a1', 'a1b23c4d', '0a0d0d0a'];

function describeStart(bytes: Buffer): string {
  const magic = bytes.toString('hex', 0, 4);
  if (CAPTURE_MAGICS.includes(magic)) return 'a packet capture: make a recording of it by import --pcap';
  if (magic.startsWith('1f8b')) return 'a gzip file, but not one of blocks: packed anew by another program';
  if (magic.startsWith('7b')) return 'begins like JSON: not packed, or unpacked already';
  return `begins with the bytes ${magic}`;
}

function unpack(packed: Buffer, offset: number, block: number): Buffer {
  let plain: Buffer;
  try {
    plain = inflateRawSync(packed.subarray(HEADER_BYTES, packed.length - TRAILER_BYTES), { maxOutputLength: 0x10000 });
  } catch (cause) {
    throw new BlockedGzipError('damaged', offset, `block ${block} cannot be unpacked`, { cause });
  }
  const at = packed.length - TRAILER_BYTES;
  if (plain.length !== packed.readUInt32LE(at + 4) || crc32(plain) !== packed.readUInt32LE(at)) {
    throw new BlockedGzipError('damaged', offset, `block ${block} does not match its checksum`);
  }
  return plain;
}
