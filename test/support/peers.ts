import { decodePingMessage, type PingMessage } from '../../shared/domain/ping-wire.ts';
import { formatRfc3339Nanos } from '../../shared/domain/rfc3339-nanos.ts';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';
import type { FakeNetwork } from './fake-network.ts';

const encoder = new TextEncoder();

/** As Go's encoding/json writes it: trailing zeros of the second are cut off. */
export function encodeAsGo({ clusterId, msgType, timeStamp }: PingMessage): Uint8Array {
  const stamp = formatRfc3339Nanos(timeStamp).replace(/\.?0+Z$/, 'Z');
  return encoder.encode(JSON.stringify({ clusterID: clusterId, msgType, timeStamp: stamp }));
}

/** What the Go implementation's receiver answers to a PING; nothing to anything else. */
export function answerAsGo(bytes: Uint8Array): Uint8Array | undefined {
  const message = decodePingMessage(bytes);
  return message?.msgType === 'PING' ? encodeAsGo({ ...message, msgType: 'PONG' }) : undefined;
}

/** Puts a peer on the fake network that answers each PING; `answers` may double, alter or withhold the PONG. */
export async function startFakePeer(
  network: FakeNetwork,
  local: Endpoint,
  answers: (pong: Uint8Array) => readonly Uint8Array[] = (pong) => [pong],
): Promise<{ readonly pings: PingMessage[]; readonly pongs: PingMessage[]; close(): void }> {
  const pings: PingMessage[] = [];
  const pongs: PingMessage[] = [];
  const socket = await network.host().open({
    local,
    peer: local,
    onError: () => {},
    onMessage: (bytes, from) => {
      const message = decodePingMessage(bytes);
      if (message !== undefined) (message.msgType === 'PING' ? pings : pongs).push(message);
      const pong = answerAsGo(bytes);
      if (pong === undefined) return;
      for (const answer of answers(pong)) socket.send(answer, from, () => {});
    },
  });
  return { pings, pongs, close: () => socket.close() };
}
