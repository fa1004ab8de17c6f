/**
 * UDP datagrams out of captured frames: Ethernet (VLAN tags too), raw IP, Linux cooked (both versions), BSD loopback.
 *
 * @see https://www.tcpdump.org/linktypes.html
 */

export type UdpPacket = {
  readonly source: { readonly address: string; readonly port: number };
  readonly destination: { readonly address: string; readonly port: number };
  /** Shorter than it was sent where the capture cut it. */
  readonly payload: Uint8Array;
  readonly isCut: boolean;
  /** Where the link layer tells. */
  readonly direction?: Direction;
};

/** As the capturing host saw it. */
export type Direction = 'in' | 'out';

/** Link types that are understood, by their number in pcap files. */
export const LINK_TYPES: Readonly<Record<number, string>> = {
  0: 'NULL',
  1: 'EN10MB',
  12: 'RAW',
  14: 'RAW',
  101: 'RAW',
  108: 'LOOP',
  113: 'LINUX_SLL',
  228: 'IPV4',
  229: 'IPV6',
  276: 'LINUX_SLL2',
};

const ETHERTYPE_IPV4 = 0x0800;
const ETHERTYPE_IPV6 = 0x86dd;
const VLAN_TAGS = [0x8100, 0x88a8, 0x9100];
const UDP = 17;

/** `undefined` for what is no complete UDP header over IP, or a fragment; never throws. */
export function decodeUdp(linkType: number, frame: Uint8Array): UdpPacket | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const link = networkLayer(linkType, view);
  if (link === undefined) return undefined;
  const packet = link.version === 4 ? decodeIpv4(view, link.at) : decodeIpv6(view, link.at);
  return packet && link.direction ? { ...packet, direction: link.direction } : packet;
}

type NetworkLayer = { readonly version: 4 | 6; readonly at: number; readonly direction?: Direction };

function networkLayer(linkType: number, view: DataView): NetworkLayer | undefined {
  switch (LINK_TYPES[linkType]) {
    case 'EN10MB':
      return ethernet(view);
    case 'LINUX_SLL':
      return cooked(view, { typeAt: 14, packetType: () => view.getUint16(0), length: 16 });
    case 'LINUX_SLL2':
      return cooked(view, { typeAt: 0, packetType: () => view.getUint8(10), length: 20 });
    case 'NULL':
    case 'LOOP':
      return byVersion(view, 4);
    case undefined:
      return undefined;
    default:
      return byVersion(view, 0);
  }
}

function ethernet(view: DataView): NetworkLayer | undefined {
  let at = 12;
  while (view.byteLength >= at + 2 && VLAN_TAGS.includes(view.getUint16(at))) at += 4;
  return view.byteLength < at + 2 ? undefined : byEtherType(view.getUint16(at), at + 2);
}

const PACKET_OUTGOING = 4;

function cooked(
  view: DataView,
  {
    typeAt,
    packetType,
    length,
  }: { readonly typeAt: number; readonly packetType: () => number; readonly length: number },
): NetworkLayer | undefined {
  if (view.byteLength < length) return undefined;
  const network = byEtherType(view.getUint16(typeAt), length);
  return network && { ...network, direction: packetType() === PACKET_OUTGOING ? 'out' : 'in' };
}

function byEtherType(type: number, at: number): NetworkLayer | undefined {
  if (type === ETHERTYPE_IPV4) return { version: 4, at };
  return type === ETHERTYPE_IPV6 ? { version: 6, at } : undefined;
}

function byVersion(view: DataView, at: number): NetworkLayer | undefined {
  if (view.byteLength <= at) return undefined;
  const version = view.getUint8(at) >> 4;
  return version === 4 || version === 6 ? { version, at } : undefined;
}

function decodeIpv4(view: DataView, at: number): UdpPacket | undefined {
  if (view.byteLength < at + 20) return undefined;
  const headerLength = (view.getUint8(at) & 0x0f) * 4;
  const isFragment = (view.getUint16(at + 6) & 0x3fff) !== 0;
  if (headerLength < 20 || isFragment || view.getUint8(at + 9) !== UDP) return undefined;
  const end = at + view.getUint16(at + 2);
  const address = (from: number) => [0, 1, 2, 3].map((index) => view.getUint8(from + index)).join('.');
  return decodeDatagram(view, at + headerLength, end, address(at + 12), address(at + 16));
}

/** Headers that may stand between, each with its length in its second byte: hop-by-hop, routing, destination options. */
const EXTENSIONS = [0, 43, 60];

function decodeIpv6(view: DataView, start: number): UdpPacket | undefined {
  if (view.byteLength < start + 40) return undefined;
  const end = start + 40 + view.getUint16(start + 4);
  let next = view.getUint8(start + 6);
  let at = start + 40;
  while (EXTENSIONS.includes(next)) {
    if (view.byteLength < at + 8) return undefined;
    next = view.getUint8(at);
    at += 8 + view.getUint8(at + 1) * 8;
  }
  if (next !== UDP) return undefined;
  return decodeDatagram(view, at, end, ipv6(view, start + 8), ipv6(view, start + 24));
}

function ipv6(view: DataView, at: number): string {
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((offset) => view.getUint16(at + offset).toString(16));
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1); // in the form of RFC 5952
}

function decodeDatagram(
  view: DataView,
  at: number,
  packetEnd: number,
  sourceAddress: string,
  destinationAddress: string,
): UdpPacket | undefined {
  if (view.byteLength < at + 8 || packetEnd < at + 8) return undefined;
  const length = view.getUint16(at + 4);
  const end = Math.min(at + length, packetEnd);
  if (length < 8) return undefined;
  return {
    source: { address: sourceAddress, port: view.getUint16(at) },
    destination: { address: destinationAddress, port: view.getUint16(at + 2) },
    payload: new Uint8Array(view.buffer, view.byteOffset + at + 8, Math.min(end, view.byteLength) - at - 8),
    isCut: end > view.byteLength,
  };
}
