import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { manifest as receiverManifest } from '../../functions/ping-receiver/manifest.ts';
import { createPingReceiver } from '../../functions/ping-receiver/worker.ts';
import { manifest as senderManifest } from '../../functions/ping-sender/manifest.ts';
import { createPingSender } from '../../functions/ping-sender/worker.ts';
import { decodePingMessage, encodePingMessage, TunnelWire } from '../../shared/domain/ping-wire.ts';
import { StampSource } from '../../shared/domain/stamp-source.ts';
import { TunnelProbe } from '../../shared/domain/tunnel-probe.ts';
import type { TunnelLink } from '../../shared/runtime/tunnel-link.ts';

const PEER = { address: '10.0.0.2', port: 12_345 };
const SENDER = '0a1b2c3d';

type Sent = { readonly bytes: Uint8Array; readonly done: (code: string | undefined) => void };

function parts() {
  const sent: Sent[] = [];
  let nowMs = 0;
  const link: TunnelLink = {
    send: (bytes, _to, done) => sent.push({ bytes, done }),
    fault: () => undefined,
    close: () => {},
  };
  const now = () => ({ monotonicMs: nowMs, unixMs: nowMs });
  const voice = { interfaceId: 'liqo-tunnel', lastSequence: 0, emit: () => {} };
  const probe = new TunnelProbe(voice, { intervalMs: 10, lossThreshold: 5 }, now());
  const wire = new TunnelWire('liqo-tunnel', SENDER);
  const at = (ms: number) => {
    nowMs = ms;
  };
  return { sent, link, now, probe, wire, at };
}

test('the gateway-resident workers say what they are, under the names of their folders', () => {
  expect([senderManifest.name, receiverManifest.name]).toEqual(['ping-sender', 'ping-receiver']);
  for (const { summary } of [senderManifest, receiverManifest]) expect(summary).toMatch(/^[A-Z].*[^.]$/);
});

describe('ping-sender', () => {
  test('leaves the bytes alone until their send is over, and then uses them again', () => {
    const { sent, at, ...rest } = parts();
    const sender = createPingSender({ ...rest, stamps: new StampSource(0), peer: PEER, onRefused: () => {} });
    const stampOf = (index: number) => decodePingMessage((sent[index] as Sent).bytes)?.timeStamp;
    sender.wake(0);
    const first = stampOf(0);
    at(10);
    sender.wake(10);
    expect(stampOf(0)).toEqual(first);
    expect(stampOf(1)).not.toEqual(first);
    for (const { done } of sent) done(undefined);
    at(20);
    sender.wake(20);
    expect(sent[2]?.bytes).toBe(sent[1]?.bytes);
  });

  test('sends nothing that is not due', () => {
    const { sent, ...rest } = parts();
    const sender = createPingSender({ ...rest, stamps: new StampSource(0), peer: PEER, onRefused: () => {} });
    for (const atMs of [0, 1, 5, 9.99]) sender.wake(atMs);
    expect(sent.length).toBe(1);
  });

  test('gives every PING a stamp of its own, though the clock stands still', () => {
    const stamps = new StampSource(1_767_323_045_123);
    const all = Array.from({ length: 1_000 }, () => JSON.stringify(stamps.next(5)));
    expect(new Set(all).size).toBe(1_000);
  });
});

describe('ping-receiver', () => {
  function receiver() {
    const { sent, link, now, probe, wire } = parts();
    const dropped: string[] = [];
    const receive = createPingReceiver({
      ...{ probe, wire, link, peerAddress: PEER.address, bufferSizeBytes: 1_024, now, stall: () => undefined },
      onAnswered: () => {},
      onDropped: (reason) => dropped.push(reason),
    });
    return { sent, dropped, receive };
  }

  test('takes any bytes of any length: each is answered with no more than came, or counted once', () => {
    const ping = encodePingMessage({ clusterId: 'x', msgType: 'PING', timeStamp: { seconds: 1, nanos: 1 } });
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 2_000 }),
      fc.tuple(fc.nat(ping.length - 1), fc.nat(255)).map(([at, byte]) => ping.with(at, byte)),
    );
    fc.assert(
      fc.property(anything, fc.boolean(), (bytes, isPeer) => {
        const { sent, dropped, receive } = receiver();
        receive(new Uint8Array(bytes), isPeer ? PEER : { ...PEER, address: '10.9.9.9' });
        expect(sent.length + dropped.length).toBe(1);
        if (!isPeer) expect(dropped).toEqual(['wrong-source']);
        for (const reply of sent) expect(reply.bytes.length).toBeLessThanOrEqual(bytes.length);
      }),
      { numRuns: 5_000 },
    );
  });

  test('counts an answer that could not be sent', () => {
    const { sent, dropped, receive } = receiver();
    receive(encodePingMessage({ clusterId: 'x', msgType: 'PING', timeStamp: { seconds: 1, nanos: 1 } }), PEER);
    sent[0]?.done('EPERM');
    expect(dropped).toEqual(['reply-failed']);
  });
});
