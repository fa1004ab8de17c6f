import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CapturedFrame, CaptureError, readCapture } from '../../shared/adapters/capture-file.ts';
import { decodeUdp, LINK_TYPES } from '../../shared/domain/udp-packet.ts';
import { frameOf, ipPacket, pcapFile, pcapngFile, type WrittenFrame } from '../support/capture-writer.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wgk-capture-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function framesOf(bytes: Uint8Array, onCut: (message: string) => void = () => {}): Promise<CapturedFrame[]> {
  const path = join(folder, 'capture');
  await writeFile(path, bytes);
  const frames: CapturedFrame[] = [];
  for await (const frame of readCapture(path, onCut)) frames.push(frame);
  return frames;
}

const faultOf = (bytes: Uint8Array) =>
  framesOf(bytes).then(
    () => 'none',
    (error: Error) => error,
  );
const linkTypes = fc.constantFrom(...Object.keys(LINK_TYPES).map(Number));
const frames: fc.Arbitrary<WrittenFrame[]> = fc.array(
  fc.record({
    unixNs: fc.bigInt({ min: 0n, max: 4_000_000_000_000_000_000n }).map((ns) => (ns / 1_000n) * 1_000n),
    bytes: fc.uint8Array({ maxLength: 100 }),
  }),
  { maxLength: 20 },
);
const instantOf = (unixNs: bigint) => ({
  seconds: Number(unixNs / 1_000_000_000n),
  nanos: Number(unixNs % 1_000_000_000n),
});

describe('a capture file', () => {
  it('gives back the packets of a pcap file, in either byte order, to the micro- or nanosecond', async () => {
    await fc.assert(
      fc.asyncProperty(
        frames,
        fc.boolean(),
        fc.boolean(),
        linkTypes,
        async (written, littleEndian, nanoseconds, linkType) => {
          const read = await framesOf(pcapFile({ littleEndian, nanoseconds, linkType }, written));
          expect(read.map(({ at, bytes, linkType: type }) => ({ at, type, bytes: [...bytes] }))).toEqual(
            written.map(({ unixNs, bytes }) => ({ at: instantOf(unixNs), type: linkType, bytes: [...bytes] })),
          );
        },
      ),
    );
  });

  it('gives back the packets of a pcapng file, at its own resolution, with their directions', async () => {
    const flagged = fc.array(fc.tuple(frames, fc.constantFrom(undefined, 1, 2, 0)), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(
        flagged,
        fc.boolean(),
        linkTypes,
        fc.constantFrom(6, 9),
        async (parts, littleEndian, linkType, resolution) => {
          const written = parts.flatMap(([some, flags]) =>
            some.map((frame) => ({ ...frame, ...(flags !== undefined && { flags }) })),
          );
          const read = await framesOf(pcapngFile({ littleEndian, linkType, resolution }, written));
          expect(read.map(({ at, bytes, direction }) => ({ at, direction, bytes: [...bytes] }))).toEqual(
            written.map(({ unixNs, bytes, flags }) => ({
              at: instantOf(unixNs),
              direction: flags === 1 ? 'in' : flags === 2 ? 'out' : undefined,
              bytes: [...bytes],
            })),
          );
        },
      ),
    );
  });

  it('gives back all before the place at which it is cut off, and says where that is', async () => {
    const one: WrittenFrame = { unixNs: 1_000_000_000n, bytes: new Uint8Array(50) };
    const [pcap, pcapng] = [
      pcapFile({ littleEndian: true, nanoseconds: false, linkType: 1 }, [one, one]),
      // The block of statistics at its end takes 24 bytes.
      pcapngFile({ littleEndian: false, linkType: 1, resolution: 6 }, [one, one]).subarray(0, -24),
    ];
    for (const whole of [pcap, pcapng]) {
      for (const missing of [3, 49, 55]) {
        const said: string[] = [];
        expect(await framesOf(whole.subarray(0, whole.length - missing), (text) => said.push(text))).toHaveLength(1);
        expect(said).toEqual([
          expect.stringMatching(
            /capture: byte \d+: the file is cut off (within [^:]+: \d+ of \d+ bytes are there|before a packet)$/,
          ),
        ]);
      }
      const said: string[] = [];
      expect(await framesOf(whole, (text) => said.push(text))).toHaveLength(2);
      expect(said).toEqual([]);
    }
  });

  it('is refused where its header is cut off', async () => {
    const header = pcapFile({ littleEndian: true, nanoseconds: false, linkType: 1 }, []);
    const section = pcapngFile({ littleEndian: true, linkType: 1, resolution: 6 }, []).subarray(0, 28);
    expect(String(await faultOf(header.subarray(0, 20)))).toMatch(
      /byte 4: .* cut off within the header: 16 of 20 bytes/,
    );
    expect(String(await faultOf(section.subarray(0, 20)))).toMatch(/byte 12: .* cut off within a block/);
    expect(String(await faultOf(Buffer.alloc(0)))).toMatch(/byte 0: the file is empty/);
  });

  it.each([
    ['text', Buffer.from('hello world'), /byte 0: begins with 68656c6c: neither pcap nor pcapng/],
    [
      'a link type that nobody knows',
      pcapFile({ littleEndian: true, nanoseconds: false, linkType: 147 }, []),
      /link type 147 is not understood/,
    ],
    [
      'a packet without end',
      Buffer.concat([pcapFile({ littleEndian: true, nanoseconds: false, linkType: 1 }, []), Buffer.alloc(16, 0x77)]),
      /byte 24: a packet of 2004318071 bytes: the file is damaged/,
    ],
  ])('names the place of %s', async (_what, bytes, message) => {
    const error = await faultOf(bytes);
    expect(error).toBeInstanceOf(CaptureError);
    expect(String(error)).toMatch(message);
  });

  it('never fails in another way, whatever bytes it is given', async () => {
    const some: WrittenFrame[] = [1, 2, 3].map((n) => ({
      unixNs: BigInt(n) * 1_000_000_000n,
      bytes: new Uint8Array(40),
    }));
    const wholes = [
      pcapFile({ littleEndian: true, nanoseconds: true, linkType: 1 }, some),
      pcapngFile({ littleEndian: true, linkType: 1, resolution: 9 }, some),
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...wholes),
        fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 4 }),
        fc.nat(400),
        async (whole, edits, cut) => {
          const bytes = Buffer.from(whole);
          for (const [at, value] of edits) if (at < bytes.length) bytes[at] = value;
          const error = await faultOf(bytes.subarray(0, Math.max(1, bytes.length - cut)));
          if (error !== 'none') expect(error).toBeInstanceOf(CaptureError);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('a captured frame', () => {
  const octets = (length: number) => fc.array(fc.nat(255), { minLength: length, maxLength: length });
  const addresses = fc.oneof(fc.tuple(octets(4), octets(4)), fc.tuple(octets(16), octets(16)));
  const port = fc.nat(65_535);

  it('gives the datagram in it, over any link layer that is understood', () => {
    fc.assert(
      fc.property(
        addresses,
        port,
        port,
        fc.uint8Array({ maxLength: 80 }),
        linkTypes,
        fc.boolean(),
        (pair, from, to, payload, linkType, outgoing) => {
          const [source, destination] = pair;
          fc.pre(
            linkType !== 108 &&
              !(linkType === 228 && source.length !== 4) &&
              !(linkType === 229 && source.length !== 16),
          );
          const datagram = {
            source: { address: source, port: from },
            destination: { address: destination, port: to },
            payload,
          };
          const packet = decodeUdp(linkType, frameOf(linkType, ipPacket(datagram), outgoing));
          expect(packet).toMatchObject({ source: { port: from }, destination: { port: to }, isCut: false });
          expect([...(packet?.payload ?? [])]).toEqual([...payload]);
          if (source.length === 4) expect(packet?.source.address).toBe(source.join('.'));
          if (linkType === 113 || linkType === 276) expect(packet?.direction).toBe(outgoing ? 'out' : 'in');
        },
      ),
    );
  });

  it('sees VLAN tags, fragments, other protocols and cut frames', () => {
    const packet = ipPacket({
      source: { address: [10, 0, 0, 1], port: 1 },
      destination: { address: [10, 0, 0, 2], port: 2 },
      payload: Buffer.from('hello'),
    });
    const tagged = Buffer.concat([Buffer.alloc(12), Buffer.from([0x81, 0x00, 0x00, 0x07, 0x08, 0x00]), packet]);
    expect(decodeUdp(1, tagged)?.destination.address).toBe('10.0.0.2');
    expect(decodeUdp(101, packet.subarray(0, packet.length - 2))).toMatchObject({ isCut: true });
    const fragment = Buffer.from(packet);
    fragment.writeUInt16BE(0x2000, 6);
    expect(decodeUdp(101, fragment)).toBeUndefined();
    const tcp = Buffer.from(packet);
    tcp[9] = 6;
    expect(decodeUdp(101, tcp)).toBeUndefined();
    const v6 = ipPacket({
      source: { address: [0xfe, 0x80, ...Array(13).fill(0), 1], port: 1 },
      destination: { address: Array(16).fill(0), port: 2 },
      payload: new Uint8Array(),
    });
    expect(decodeUdp(101, v6)).toMatchObject({ source: { address: 'fe80::1' }, destination: { address: '::' } });
  });

  it('never fails, whatever it holds', () => {
    fc.assert(
      fc.property(linkTypes, fc.uint8Array({ maxLength: 120 }), (linkType, bytes) => {
        decodeUdp(linkType, bytes);
      }),
      { numRuns: 2_000 },
    );
  });
});
