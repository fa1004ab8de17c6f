/** Capture files written by the letter of the formats, for tests that read them back. */

export type WrittenFrame = { readonly unixNs: bigint; readonly bytes: Uint8Array; readonly flags?: number };

type PcapStyle = { readonly littleEndian: boolean; readonly nanoseconds: boolean; readonly linkType: number };

export function pcapFile({ littleEndian, nanoseconds, linkType }: PcapStyle, frames: readonly WrittenFrame[]): Buffer {
  const u32 = writer32(littleEndian);
  const u16 = writer16(littleEndian);
  const tickNs = nanoseconds ? 1n : 1_000n;
  const head = [
    u32(nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4),
    u16(2),
    u16(4),
    u32(0),
    u32(0),
    u32(262_144),
    u32(linkType),
  ];
  const packets = frames.flatMap(({ unixNs, bytes }) => [
    u32(Number(unixNs / 1_000_000_000n)),
    u32(Number((unixNs % 1_000_000_000n) / tickNs)),
    u32(bytes.length),
    u32(bytes.length),
    Buffer.from(bytes),
  ]);
  return Buffer.concat([...head, ...packets]);
}

type PcapngStyle = { readonly littleEndian: boolean; readonly linkType: number; readonly resolution: number };

export function pcapngFile(
  { littleEndian, linkType, resolution }: PcapngStyle,
  frames: readonly WrittenFrame[],
): Buffer {
  const u32 = writer32(littleEndian);
  const u16 = writer16(littleEndian);
  const block = (type: number, ...parts: readonly Buffer[]): Buffer => {
    const body = padded(Buffer.concat(parts));
    return Buffer.concat([u32(type), u32(body.length + 12), body, u32(body.length + 12)]);
  };
  const option = (code: number, value: Buffer) => Buffer.concat([u16(code), u16(value.length), padded(value)]);
  const noMore = Buffer.concat([u16(0), u16(0)]);
  const perSecond = 10n ** BigInt(resolution);
  const section = block(0x0a0d0d0a, u32(0x1a2b3c4d), u16(1), u16(0), u32(0xffffffff), u32(0xffffffff));
  const source = block(1, u16(linkType), u16(0), u32(0), option(9, Buffer.from([resolution])), noMore);
  const packets = frames.map(({ unixNs, bytes, flags }) => {
    const ticks = (unixNs * perSecond) / 1_000_000_000n;
    const options = flags === undefined ? [] : [option(2, u32(flags)), noMore];
    return block(
      6,
      ...[u32(0), u32(Number(ticks >> 32n)), u32(Number(ticks & 0xffffffffn)), u32(bytes.length), u32(bytes.length)],
      ...[padded(Buffer.from(bytes)), ...options],
    );
  });
  // A block of statistics, as capture programs put at the end: to be passed over.
  return Buffer.concat([section, source, ...packets, block(5, u32(0), u32(0), u32(0))]);
}

export type Datagram = {
  readonly source: { readonly address: readonly number[]; readonly port: number };
  readonly destination: { readonly address: readonly number[]; readonly port: number };
  readonly payload: Uint8Array;
};

/** A UDP datagram over IPv4 or IPv6, by the length of its addresses. */
export function ipPacket({ source, destination, payload }: Datagram): Buffer {
  const udp = Buffer.alloc(8 + payload.length);
  udp.writeUInt16BE(source.port, 0);
  udp.writeUInt16BE(destination.port, 2);
  udp.writeUInt16BE(udp.length, 4);
  udp.set(payload, 8);
  if (source.address.length === 4) {
    const head = Buffer.alloc(20);
    head[0] = 0x45;
    head.writeUInt16BE(head.length + udp.length, 2);
    head[8] = 64;
    head[9] = 17;
    head.set([...source.address, ...destination.address], 12);
    return Buffer.concat([head, udp]);
  }
  const head = Buffer.alloc(40);
  head[0] = 0x60;
  head.writeUInt16BE(udp.length, 4);
  head[6] = 17;
  head[7] = 64;
  head.set([...source.address, ...destination.address], 8);
  return Buffer.concat([head, udp]);
}

/** The packet behind the header of a link layer, by the number of its type. */
export function frameOf(linkType: number, packet: Buffer, outgoing = false): Buffer {
  const isV4 = (packet[0] as number) >> 4 === 4;
  const etherType = Buffer.from(isV4 ? [0x08, 0x00] : [0x86, 0xdd]);
  switch (linkType) {
    case 1:
      return Buffer.concat([Buffer.alloc(12, 2), etherType, packet]);
    case 113:
      return Buffer.concat([Buffer.from([0, outgoing ? 4 : 0]), Buffer.alloc(12), etherType, packet]);
    case 276:
      return Buffer.concat([etherType, Buffer.alloc(8), Buffer.from([outgoing ? 4 : 0, 0]), Buffer.alloc(8), packet]);
    case 0:
      return Buffer.concat([Buffer.from([2, 0, 0, 0]), packet]);
    default:
      return packet;
  }
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
}

function writer32(littleEndian: boolean) {
  return (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    if (littleEndian) bytes.writeUInt32LE(value >>> 0);
    else bytes.writeUInt32BE(value >>> 0);
    return bytes;
  };
}

function writer16(littleEndian: boolean) {
  return (value: number): Buffer => {
    const bytes = Buffer.alloc(2);
    if (littleEndian) bytes.writeUInt16LE(value);
    else bytes.writeUInt16BE(value);
    return bytes;
  };
}
