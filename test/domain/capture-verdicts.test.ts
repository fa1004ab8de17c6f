import { describe, expect, it } from 'vitest';
import { CaptureSides } from '../../shared/domain/capture-side.ts';
import { CaptureVerdicts } from '../../shared/domain/capture-verdicts.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import { encodePingMessage } from '../../shared/domain/ping-wire.ts';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import { type UnixNanos, unixNanosOfMs } from '../../shared/domain/rfc3339-nanos.ts';
import type { Direction, UdpPacket } from '../../shared/domain/udp-packet.ts';
import { START_UNIX_MS } from '../support/synthetic-observations.ts';

const [A, B] = ['169.254.18.1', '169.254.18.2'];
const PORT = 12_345;

type Captured = { readonly packet: UdpPacket; readonly at: UnixNanos };

function packet(
  from: string,
  to: string,
  atMs: number,
  msgType: 'PING' | 'PONG',
  more: { readonly stampMs?: number; readonly clusterId?: string; readonly direction?: Direction } = {},
): Captured {
  const { stampMs = atMs, clusterId = 'liqo-tunnel#0a1b2c3d', direction } = more;
  const timeStamp = unixNanosOfMs(START_UNIX_MS + stampMs);
  const payload = encodePingMessage({ clusterId, msgType, timeStamp });
  return {
    packet: {
      ...{ source: { address: from, port: 40_000 }, destination: { address: to, port: PORT }, payload, isCut: false },
      ...(direction && { direction }),
    },
    at: unixNanosOfMs(START_UNIX_MS + atMs),
  };
}

/** What A's tcpdump sees: A's PINGs answered after 5 ms, B's answered at once. */
function conversation(rounds: number, lost: (round: number) => boolean = () => false): Captured[] {
  const packets: Captured[] = [];
  for (let round = 0; round < rounds; round++) {
    const atMs = round * 2_000;
    packets.push(packet(A, B, atMs, 'PING'));
    if (!lost(round)) packets.push(packet(B, A, atMs + 5, 'PONG', { stampMs: atMs }));
    const back = { stampMs: atMs + 700, clusterId: 'liqo-tunnel#ffffffff' };
    packets.push(packet(B, A, atMs + 700, 'PING', back), packet(A, B, atMs + 700.1, 'PONG', back));
  }
  return packets;
}

function sidesOf(packets: readonly Captured[], local: readonly string[] = []) {
  const sides = new CaptureSides(local, PORT);
  for (const { packet: one, at } of packets) sides.take(one, at);
  return sides.read();
}

function verdictsOf(packets: readonly Captured[], local: readonly string[] = []) {
  const verdicts = new CaptureVerdicts({
    connection: { namespace: 'ns', name: 'gw-a' },
    ...{ sides: sidesOf(packets, local), settings: { intervalMs: 2_000, lossThreshold: 5 }, pingPort: PORT },
  });
  const messages: RecordedMessage[] = packets.flatMap(({ packet: one, at }) => verdicts.take(one, at));
  messages.push(...verdicts.finish(packets.at(-1)?.at ?? { seconds: 0, nanos: 0 }));
  return { messages, counts: verdicts.counts, events: messages.map(({ event }) => event?.data as Observation) };
}

describe('the side of a capture', () => {
  it('is where the other side is answered at once', () => {
    expect(sidesOf(conversation(5))).toEqual([{ local: A, peer: B, how: 'answers' }]);
  });

  it('is what the capture says of directions, or the user', () => {
    const incoming = conversation(3).map(({ packet: one, at }) => {
      const direction: Direction = one.source.address === B ? 'out' : 'in';
      return { packet: { ...one, direction }, at };
    });
    expect(sidesOf(incoming)).toEqual([{ local: B, peer: A, how: 'direction' }]);
    expect(sidesOf(incoming, [A])).toEqual([{ local: A, peer: B, how: 'given' }]);
  });

  it('is a guess, and called one, where nothing tells', () => {
    expect(sidesOf([packet(A, B, 0, 'PING')])).toEqual([{ local: A, peer: B, how: 'guess' }]);
    expect(sidesOf([])).toEqual([]);
  });
});

describe('the verdicts of a capture', () => {
  it('are those of the gateway that sent the PINGs', () => {
    const { events, counts } = verdictsOf(conversation(30, (round) => round >= 10 && round < 20));
    expect(counts).toEqual({ pings: 30, pongs: 20, peerPings: 30, unusedPongs: 0, malformed: 0, cut: 0 });
    expect(events[0]).toMatchObject({ kind: 'listed', interfaceId: 'liqo-tunnel' });
    const changes = events.slice(1).filter(({ value }, at, all) => value !== all[at - 1]?.value);
    expect(changes).toMatchObject([
      { kind: 'pong', value: 'Connected', sequence: 1, rttNs: 5_000_000 },
      { kind: 'down', value: 'Error', monotonicMs: 9 * 2_000 + 5 + 10_000, reason: 'Lost' },
      { kind: 'pong', value: 'Connected', monotonicMs: 20 * 2_000 + 5 },
    ]);
    expect(events.slice(1).map(({ sequence }) => sequence)).toEqual(events.slice(1).map((_, index) => index + 1));
  });

  it('count a PONG once, only if it was asked for, and no copy of a packet', () => {
    const packets = conversation(4).flatMap((one) => [one, one]);
    packets.push(packet(B, A, 6_100, 'PONG', { stampMs: 4_321 }));
    const { counts, events } = verdictsOf(packets);
    expect(counts).toMatchObject({ pings: 4, pongs: 4, unusedPongs: 5 });
    expect(events.filter(({ kind }) => kind === 'pong')).toHaveLength(4);
  });

  it('begin anew, under a higher epoch, when the gateway did', () => {
    const again = conversation(3).map(({ packet: one, at }) => {
      const text = new TextDecoder().decode(one.payload).replace('0a1b2c3d', '99999999');
      const payload = new TextEncoder().encode(text.replaceAll('2026-01-01T00:00:0', '2026-01-01T00:01:0'));
      return { packet: { ...one, payload }, at: { ...at, seconds: at.seconds + 60 } };
    });
    const { events } = verdictsOf([...conversation(3), ...again]);
    const listed = events.filter(({ kind }) => (kind as string) === 'listed');
    expect(listed).toHaveLength(2);
    expect(listed[1]?.gatewayEpoch).toBeGreaterThan(listed[0]?.gatewayEpoch as number);
    expect(events.at(-1)).toMatchObject({ kind: 'pong', sequence: 3, gatewayEpoch: listed[1]?.gatewayEpoch });
  });

  it('name tunnels in the order of their PINGs where these name a cluster, as the other implementation does', () => {
    const other = (from: string, to: string, atMs: number) => packet(from, to, atMs, 'PING', { clusterId: 'milan' });
    const { events } = verdictsOf([other(A, B, 0), other('169.254.18.5', '169.254.18.6', 1), other(A, B, 2_000)]);
    expect(new Set(events.map(({ interfaceId }) => interfaceId))).toEqual(new Set(['liqo-tunnel', 'liqo-tunnel1']));
  });

  it('count what is cut off or malformed', () => {
    const [first] = conversation(1) as [Captured];
    const broken = {
      ...first,
      packet: { ...first.packet, payload: first.packet.payload.subarray(0, 20), isCut: true },
    };
    const junk = { ...first, packet: { ...first.packet, payload: new Uint8Array([1, 2, 3]) } };
    expect(verdictsOf([first, broken, junk]).counts).toMatchObject({ cut: 1, malformed: 1 });
  });
});
