import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clusterIdOf, decodePingMessage, encodePingMessage, TunnelWire } from '../../shared/domain/ping-wire.ts';
import { encodeAsGo } from '../support/peers.ts';

const OURS = '0a1b2c3d';
const THEIRS = '99887766';
const wire = new TunnelWire('liqo-tunnel1', OURS);
const stamp = { seconds: 1_767_323_045, nanos: 123_000_000 };
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const bytesOf = (value: string) => new TextEncoder().encode(value);

const message = fc.record({
  clusterId: fc.oneof(fc.string({ maxLength: 60 }), fc.constantFrom(clusterIdOf('liqo-tunnel', OURS), 'liqo-tunnel1')),
  msgType: fc.constantFrom('PING' as const, 'PONG' as const),
  timeStamp: fc.record({
    seconds: fc.integer({ min: 0, max: 253_402_300_799 }),
    nanos: fc.integer({ min: 0, max: 999_999_999 }),
  }),
});

describe('the message', () => {
  test('has exactly the three fields, in this form', () => {
    const bytes = encodePingMessage({ clusterId: 'liqo-tunnel', msgType: 'PING', timeStamp: stamp });
    expect(text(bytes)).toBe(
      '{"clusterID":"liqo-tunnel","msgType":"PING","timeStamp":"2026-01-02T03:04:05.123000000Z"}',
    );
  });

  test('survives its own encoding and that of Go', () => {
    fc.assert(
      fc.property(message, (value) => {
        const wellFormed = { ...value, clusterId: value.clusterId.toWellFormed() };
        expect(decodePingMessage(encodePingMessage(wellFormed))).toEqual(wellFormed);
        expect(decodePingMessage(encodeAsGo(wellFormed))).toEqual(wellFormed);
      }),
    );
  });

  test('may have unknown fields, any order and spaces', () => {
    const json = '{ "extra": [1], "timeStamp":"2026-01-02T03:04:05.123Z", "msgType":"PONG", "clusterID":"a" }';
    expect(decodePingMessage(bytesOf(json))).toEqual({ clusterId: 'a', msgType: 'PONG', timeStamp: stamp });
  });
});

describe('a tunnel', () => {
  const ping = wire.newPing();
  wire.stampPing(ping, stamp);
  const pong = text(ping).replace('PING', 'PONG');

  test('sends a PING that names its interface and its run', () => {
    expect(decodePingMessage(ping)).toEqual({
      ...{ clusterId: 'liqo-tunnel1#0a1b2c3d', msgType: 'PING', timeStamp: stamp },
    });
  });

  test('stamps one template again and again', () => {
    fc.assert(
      fc.property(message, ({ timeStamp }) => {
        wire.stampPing(ping, timeStamp);
        expect(decodePingMessage(ping)?.timeStamp).toEqual(timeStamp);
      }),
    );
  });

  test('takes its PONG in its own form, in that of Go, and with other spaces and offsets', () => {
    for (const form of [
      pong,
      pong.replace('.123000000Z', '.123Z'),
      pong.replace('.123000000Z', '.123+00:00'),
      pong.replace('T03:04:05.123000000Z', 'T04:04:05.123+01:00'),
      pong.replaceAll(',', ', '),
      pong.replace('"msgType"', '"more":1,"msgType"'),
      `${pong}\n`,
    ]) {
      expect(wire.read(bytesOf(form)), form).toEqual({ kind: 'pong', stamp });
    }
  });

  test('takes no PONG of another tunnel, of another run or of nobody', () => {
    const of = (clusterId: string) => wire.read(bytesOf(pong.replace('liqo-tunnel1#0a1b2c3d', clusterId)));
    expect(of(clusterIdOf('liqo-tunnel', OURS))).toEqual({ kind: 'dropped', reason: 'wrong-tunnel' });
    expect(of(clusterIdOf('liqo-tunnel1', THEIRS))).toEqual({ kind: 'dropped', reason: 'foreign-pong' });
    expect(of('liqo-tunnel1')).toEqual({ kind: 'dropped', reason: 'foreign-pong' });
    expect(of('')).toEqual({ kind: 'dropped', reason: 'foreign-pong' });
  });

  test('never takes its own PING, or that of its siblings, for the peer’s', () => {
    for (const interfaceId of ['liqo-tunnel', 'liqo-tunnel1', 'x']) {
      const own = encodePingMessage({ clusterId: clusterIdOf(interfaceId, OURS), msgType: 'PING', timeStamp: stamp });
      expect(wire.read(own)).toEqual({ kind: 'dropped', reason: 'own-ping' });
      expect(wire.read(bytesOf(text(own).replaceAll(',', ' , ')))).toEqual({ kind: 'dropped', reason: 'own-ping' });
    }
  });

  test('answers the peer’s PING with its fields and nothing more, never longer', () => {
    const theirs = `{"clusterID":"any cluster","msgType":"PING","timeStamp":"2026-01-02T03:04:05.123+01:00"}`;
    for (const form of [
      theirs,
      ` ${theirs}`,
      theirs.replace('{', '{"secret":"x",'),
      theirs.replace('any', '\\u0061ny'),
    ]) {
      const frame = wire.read(bytesOf(form));
      expect(frame.kind, form).toBe('ping');
      if (frame.kind !== 'ping') return;
      expect(text(frame.reply)).toBe(theirs.replace('PING', 'PONG'));
      expect(frame.reply.length).toBeLessThanOrEqual(form.length);
    }
  });

  test('reads every message as the JSON way does, whatever the form', () => {
    fc.assert(
      fc.property(message, fc.boolean(), ({ clusterId, msgType, timeStamp }, asGo) => {
        const value = { clusterId: clusterId.toWellFormed(), msgType, timeStamp };
        const frame = wire.read(asGo ? encodeAsGo(value) : encodePingMessage(value));
        const isOwn = value.clusterId.endsWith(`#${OURS}`);
        if (msgType === 'PING') expect(frame.kind).toBe(isOwn ? 'dropped' : 'ping');
        else expect(frame.kind).toBe(value.clusterId === 'liqo-tunnel1#0a1b2c3d' ? 'pong' : 'dropped');
        if (frame.kind !== 'dropped') expect(frame.stamp).toEqual(timeStamp);
      }),
    );
  });
});

describe('whatever comes', () => {
  const mutated = fc
    .tuple(message, fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 4 }), fc.nat(200))
    .map(([value, edits, cut]) => {
      const bytes = encodePingMessage({ ...value, clusterId: value.clusterId.toWellFormed() });
      for (const [at, byte] of edits) if (at < bytes.length) bytes[at] = byte;
      return bytes.subarray(0, cut % 3 === 0 ? cut : bytes.length);
    });

  test('is read without a throw, and answered with no more than came', () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 2_000 }), mutated), (bytes) => {
        const frame = wire.read(bytes);
        if (frame.kind !== 'ping') return;
        expect(frame.reply.length).toBeLessThanOrEqual(bytes.length);
        expect(decodePingMessage(frame.reply)?.msgType).toBe('PONG');
      }),
      { numRuns: 20_000 },
    );
  });

  test('a sender that is no 8 hex digits is refused at the start', () => {
    expect(() => new TunnelWire('liqo-tunnel', 'XYZ')).toThrow('sender "XYZ": want 8 hex digits');
  });
});
