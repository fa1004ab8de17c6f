import { readFile } from 'node:fs/promises';
import { decodePingMessage } from '../../../shared/domain/ping-wire.ts';

const GLOBAL_HEADER = 24;
const RECORD_HEADER = 16;
const ETHERNET_HEADER = 14;
const UDP_HEADER = 8;

/**
 * Round trips as the kernel saw them, in nanoseconds, by interface and in the order of the PONGs: from a capture of one
 * side's device with nanosecond time stamps (`tcpdump --time-stamp-precision=nano -w`).
 *
 * @see https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/
 */
export async function capturedRoundTrips(file: string, sender: string): Promise<ReadonlyMap<string, number[]>> {
  const bytes = await readFile(file);
  if (bytes.readUInt32LE(0) !== 0xa1b23c4d) throw new Error(`${file}: no pcap of this byte order with nanoseconds`);
  const sentAt = new Map<string, bigint>();
  const roundTrips = new Map<string, number[]>();
  for (let at = GLOBAL_HEADER; at + RECORD_HEADER <= bytes.length; ) {
    const atNs = BigInt(bytes.readUInt32LE(at)) * 1_000_000_000n + BigInt(bytes.readUInt32LE(at + 4));
    const length = bytes.readUInt32LE(at + 8);
    const frame = bytes.subarray(at + RECORD_HEADER, at + RECORD_HEADER + length);
    at += RECORD_HEADER + length;
    const ipHeader = ((frame[ETHERNET_HEADER] ?? 0) & 15) * 4;
    const message = decodePingMessage(frame.subarray(ETHERNET_HEADER + ipHeader + UDP_HEADER));
    if (message === undefined || !message.clusterId.endsWith(`#${sender}`)) continue;
    const key = `${message.clusterId} ${message.timeStamp.seconds} ${message.timeStamp.nanos}`;
    if (message.msgType === 'PING') {
      sentAt.set(key, atNs);
      continue;
    }
    const sentNs = sentAt.get(key);
    if (sentNs === undefined) continue;
    const interfaceId = message.clusterId.slice(0, -1 - sender.length);
    const list = roundTrips.get(interfaceId) ?? [];
    list.push(Number(atNs - sentNs));
    roundTrips.set(interfaceId, list);
  }
  return roundTrips;
}
