import { type FileHandle, open } from 'node:fs/promises';
import type { UnixNanos } from '../domain/rfc3339-nanos.ts';
import { type Direction, LINK_TYPES } from '../domain/udp-packet.ts';

/**
 * Packets out of capture files: pcap (micro- and nanoseconds, both byte orders) and pcapng.
 *
 * @see https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ and https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/
 */

export type CapturedFrame = {
  readonly at: UnixNanos;
  readonly linkType: number;
  readonly bytes: Uint8Array;
  /** Where the capture tells. */
  readonly direction?: Direction;
};

/** A capture that cannot be read; the message names the file, the byte and the fault. */
export class CaptureError extends Error {
  readonly code = 'CAPTURE';

  constructor(path: string, offset: number, message: string, options?: ErrorOptions) {
    super(`${path}: byte ${offset}: ${message}`, options);
    this.name = 'CaptureError';
  }
}

/** The file ends within a packet: all before it is whole. */
class CutOff extends CaptureError {}

/** What tcpdump and Wireshark write at most: a longer packet or block says that the file is damaged. */
const MAX_BYTES = 16 * 1024 * 1024;
const PCAP_HEADER_BYTES = 24;
const PCAPNG_SECTION = 0x0a0d0d0a;
const PCAPNG_BYTE_ORDER = 0x1a2b3c4d;

/**
 * Frames in the order of the file, one read at a time.
 *
 * @param onCut - told what is missing where the file ends within a packet, as it does when its writer was killed; a file
 *   that ends within its header is an error
 */
export async function* readCapture(path: string, onCut: (message: string) => void): AsyncGenerator<CapturedFrame> {
  const reader = await FileReader.open(path);
  try {
    yield* framesOf(reader);
  } catch (error) {
    if (!(error instanceof CutOff)) throw error;
    onCut(error.message);
  } finally {
    await reader.close();
  }
}

async function* framesOf(reader: FileReader): AsyncGenerator<CapturedFrame> {
  const magic = await reader.take(4, 'the magic number');
  if (magic === undefined) throw reader.fault('the file is empty');
  const known = PCAP_MAGICS.get(magic.readUInt32LE(0));
  if (known !== undefined) yield* readPcap(reader, known);
  else if (magic.readUInt32LE(0) === PCAPNG_SECTION) yield* readPcapng(reader);
  else throw reader.fault(`begins with ${magic.toString('hex')}: neither pcap nor pcapng; tcpdump -w writes one`);
}

type PcapKind = { readonly littleEndian: boolean; readonly fractionNs: number };

const PCAP_MAGICS = new Map<number, PcapKind>([
  [0xa1b2c3d4, { littleEndian: true, fractionNs: 1_000 }],
  [0xd4c3b2a1, { littleEndian: false, fractionNs: 1_000 }],
  [0xa1b23c4d, { littleEndian: true, fractionNs: 1 }],
  [0x4d3cb2a1, { littleEndian: false, fractionNs: 1 }],
]);

async function* readPcap(reader: FileReader, { littleEndian, fractionNs }: PcapKind): AsyncGenerator<CapturedFrame> {
  const header = await reader.need(PCAP_HEADER_BYTES - 4, 'the header');
  const linkType = viewOf(header).getUint32(16, littleEndian) & 0x0fff_ffff;
  if (LINK_TYPES[linkType] === undefined) throw reader.fault(unknownLinkType(linkType));
  reader.isPastHeader = true;
  for (;;) {
    const head = await reader.take(16, 'the header of a packet');
    if (head === undefined) return;
    const view = viewOf(head);
    const nanos = view.getUint32(4, littleEndian) * fractionNs;
    const length = view.getUint32(8, littleEndian);
    if (length > MAX_BYTES) throw reader.fault(`a packet of ${length} bytes: the file is damaged before here`);
    if (nanos >= 1e9)
      throw reader.fault(`a packet whose fraction of a second is ${nanos} ns: the file is damaged before here`);
    const bytes = await reader.need(length, 'a packet');
    yield { at: { seconds: view.getUint32(0, littleEndian), nanos }, linkType, bytes };
  }
}

type PcapngInterface = { readonly linkType: number; readonly ticksPerSecond: bigint; readonly offsetSeconds: number };
type Section = { littleEndian: boolean; interfaces: PcapngInterface[] };

const INTERFACE_BLOCK = 1;
const OLD_PACKET_BLOCK = 2;
const ENHANCED_PACKET_BLOCK = 6;

async function* readPcapng(reader: FileReader): AsyncGenerator<CapturedFrame> {
  const section: Section = { littleEndian: true, interfaces: [] };
  await beginSection(reader, section);
  reader.isPastHeader = true;
  for (;;) {
    const head = await reader.take(4, 'the type of a block');
    if (head === undefined) return;
    const type = viewOf(head).getUint32(0, section.littleEndian);
    if (type === PCAPNG_SECTION) {
      await beginSection(reader, section);
      continue;
    }
    const lengthBytes = await reader.need(4, 'the length of a block');
    const body = await readBody(reader, viewOf(lengthBytes).getUint32(0, section.littleEndian), section, 8);
    if (type === INTERFACE_BLOCK) section.interfaces.push(interfaceOf(reader, body, section));
    const frame =
      type === ENHANCED_PACKET_BLOCK || type === OLD_PACKET_BLOCK ? frameOf(reader, body, section, type) : undefined;
    if (frame !== undefined) yield frame;
  }
}

/** After the type: length, byte order, the rest of the section header. */
async function beginSection(reader: FileReader, section: Section): Promise<void> {
  const lengthBytes = await reader.need(4, 'the length of a section');
  const order = await reader.need(4, 'the byte order of a section');
  const littleEndian = order.readUInt32LE(0) === PCAPNG_BYTE_ORDER;
  if (!littleEndian && order.readUInt32BE(0) !== PCAPNG_BYTE_ORDER) {
    throw reader.fault(`a section whose byte order is ${order.toString('hex')}`);
  }
  section.littleEndian = littleEndian;
  section.interfaces = [];
  await readBody(reader, viewOf(lengthBytes).getUint32(0, littleEndian), section, 12);
}

/** @param taken - bytes of the block that were read already */
async function readBody(
  reader: FileReader,
  length: number,
  { littleEndian }: Section,
  taken: number,
): Promise<DataView> {
  if (length < taken + 4 || length % 4 !== 0 || length > MAX_BYTES) {
    throw reader.fault(`a block of ${length} bytes: the file is damaged before here`);
  }
  const rest = await reader.need(length - taken, 'a block');
  const end = viewOf(rest).getUint32(rest.length - 4, littleEndian);
  if (end !== length) throw reader.fault(`a block that has ${length} bytes at its head and ${end} at its end`);
  return viewOf(rest.subarray(0, rest.length - 4));
}

const DEFAULT_TICKS_PER_SECOND = 1_000_000n;
const OPTION_TIME_RESOLUTION = 9;
const OPTION_TIME_OFFSET = 14;

function interfaceOf(reader: FileReader, body: DataView, { littleEndian }: Section): PcapngInterface {
  if (body.byteLength < 8) throw reader.fault('an interface block that is too short');
  const linkType = body.getUint16(0, littleEndian);
  if (LINK_TYPES[linkType] === undefined) throw reader.fault(unknownLinkType(linkType));
  let ticksPerSecond = DEFAULT_TICKS_PER_SECOND;
  let offsetSeconds = 0;
  for (const { code, at, length } of options(body, 8, littleEndian)) {
    if (code === OPTION_TIME_RESOLUTION && length >= 1) {
      const resolution = body.getUint8(at);
      ticksPerSecond = (resolution & 0x80 ? 2n : 10n) ** BigInt(resolution & 0x7f);
    }
    if (code === OPTION_TIME_OFFSET && length >= 8) offsetSeconds = Number(body.getBigInt64(at, littleEndian));
  }
  return { linkType, ticksPerSecond, offsetSeconds };
}

const OPTION_FLAGS = 2;

function frameOf(reader: FileReader, body: DataView, section: Section, type: number): CapturedFrame {
  const { littleEndian, interfaces } = section;
  if (body.byteLength < 20) throw reader.fault('a packet block that is too short');
  const index = type === OLD_PACKET_BLOCK ? body.getUint16(0, littleEndian) : body.getUint32(0, littleEndian);
  const source = interfaces[index];
  if (source === undefined)
    throw reader.fault(`a packet of interface ${index}, of which the section has ${interfaces.length}`);
  const ticks = (BigInt(body.getUint32(4, littleEndian)) << 32n) | BigInt(body.getUint32(8, littleEndian));
  const length = body.getUint32(12, littleEndian);
  if (length > body.byteLength - 20) throw reader.fault(`a packet of ${length} bytes in a block of ${body.byteLength}`);
  const { ticksPerSecond, offsetSeconds, linkType } = source;
  const at = {
    seconds: Number(ticks / ticksPerSecond) + offsetSeconds,
    nanos: Number(((ticks % ticksPerSecond) * 1_000_000_000n) / ticksPerSecond),
  };
  const bytes = new Uint8Array(body.buffer, body.byteOffset + 20, length);
  const direction = directionOf(body, 20 + Math.ceil(length / 4) * 4, littleEndian);
  return { at, linkType, bytes, ...(direction && { direction }) };
}

function directionOf(body: DataView, from: number, littleEndian: boolean): Direction | undefined {
  for (const { code, at, length } of options(body, from, littleEndian)) {
    if (code !== OPTION_FLAGS || length < 4) continue;
    const flags = body.getUint32(at, littleEndian) & 3;
    return flags === 1 ? 'in' : flags === 2 ? 'out' : undefined;
  }
  return undefined;
}

/** Ends where they end, or where the block does: options are never worth a packet. */
function* options(body: DataView, from: number, littleEndian: boolean) {
  for (let at = from; at + 4 <= body.byteLength; ) {
    const code = body.getUint16(at, littleEndian);
    const length = body.getUint16(at + 2, littleEndian);
    if (code === 0 || at + 4 + length > body.byteLength) return;
    yield { code, at: at + 4, length };
    at += 4 + Math.ceil(length / 4) * 4;
  }
}

function unknownLinkType(linkType: number): string {
  const known = [...new Set(Object.values(LINK_TYPES))].join(', ');
  return `link type ${linkType} is not understood: want ${known}; capture the tunnel's interface, or any`;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const CHUNK_BYTES = 256 * 1024;

/** Reads a file piece by piece, and knows where it is. */
class FileReader {
  readonly #path: string;
  readonly #file: FileHandle;
  #chunk: Buffer = Buffer.alloc(0);
  /** Of the piece that was taken last. */
  #offset = 0;
  #nextOffset = 0;
  /** From here on an end within something is no fault of the rest. */
  isPastHeader = false;

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  static async open(path: string): Promise<FileReader> {
    try {
      return new FileReader(path, await open(path));
    } catch (cause) {
      throw new CaptureError(path, 0, `cannot be read: ${(cause as Error).message}`, { cause });
    }
  }

  /** `undefined` at the end of the file. */
  async take(length: number, what: string): Promise<Buffer | undefined> {
    this.#offset = this.#nextOffset;
    while (this.#chunk.length < length) {
      const more = Buffer.allocUnsafe(Math.max(CHUNK_BYTES, length - this.#chunk.length));
      const { bytesRead } = await this.#read(more);
      if (bytesRead === 0) {
        if (this.#chunk.length === 0) return undefined;
        throw this.#cutOff(`the file is cut off within ${what}: ${this.#chunk.length} of ${length} bytes are there`);
      }
      this.#chunk = Buffer.concat([this.#chunk, more.subarray(0, bytesRead)]);
    }
    const taken = this.#chunk.subarray(0, length);
    this.#chunk = this.#chunk.subarray(length);
    this.#nextOffset += length;
    return taken;
  }

  async need(length: number, what: string): Promise<Buffer> {
    const taken = await this.take(length, what);
    if (taken !== undefined) return taken;
    if (length === 0) return Buffer.alloc(0);
    throw this.#cutOff(`the file is cut off before ${what}`);
  }

  fault(message: string): CaptureError {
    return new CaptureError(this.#path, this.#offset, message);
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  #cutOff(message: string): CaptureError {
    return this.isPastHeader ? new CutOff(this.#path, this.#offset, message) : this.fault(message);
  }

  async #read(into: Buffer): Promise<{ readonly bytesRead: number }> {
    try {
      return await this.#file.read(into, 0, into.length);
    } catch (cause) {
      throw new CaptureError(this.#path, this.#nextOffset, `cannot be read: ${(cause as Error).message}`, { cause });
    }
  }
}
