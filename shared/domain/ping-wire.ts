import {
  parseRfc3339,
  parseRfc3339Bytes,
  RFC3339_NANOS_LENGTH,
  type UnixNanos,
  writeRfc3339Nanos,
} from './rfc3339-nanos.ts';

/**
 * The datagrams between two gateways: `{"clusterID":"liqo-tunnel#0a1b2c3d","msgType":"PING","timeStamp":"…"}`.
 *
 * A peer may be the Go implementation: it decodes these three fields, sets msgType to PONG and encodes them anew, so
 * unknown fields vanish and `.120000000Z` comes back as `.12Z`. Hence a PING's identity is its time stamp in integer
 * nanoseconds, and its `clusterID` names the interface and the run that sent it.
 */

export type PingMessage = {
  readonly clusterId: string;
  readonly msgType: 'PING' | 'PONG';
  readonly timeStamp: UnixNanos;
};

/** What a datagram is to the tunnel that received it. `pong`: the clusterID is the tunnel's own. */
export type Frame =
  | { readonly kind: 'pong'; readonly stamp: UnixNanos }
  | { readonly kind: 'ping'; readonly stamp: UnixNanos; readonly reply: Uint8Array }
  | { readonly kind: 'dropped'; readonly reason: WireFault };

/**
 * - `malformed`: not this JSON, or a time stamp that is none
 * - `own-ping`: this run's own PING came back as if the peer had sent it
 * - `wrong-tunnel`: a PONG for another of this run's tunnels
 * - `foreign-pong`: a PONG for another run, or for nobody known
 */
export type WireFault = 'malformed' | 'own-ping' | 'wrong-tunnel' | 'foreign-pong';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

const HEAD = encoder.encode('{"clusterID":"');
const PING_MIDDLE = encoder.encode('","msgType":"PING","timeStamp":"');
const TAIL = encoder.encode('"}');
/** Where PING and PONG differ within {@link PING_MIDDLE}. */
const VOWEL_OFFSET = '","msgType":"P'.length;
const VOWEL_O = 'O'.charCodeAt(0);
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** `sender`: 8 hex digits, drawn anew for each run. */
export function clusterIdOf(interfaceId: string, sender: string): string {
  return `${interfaceId}#${sender}`;
}

/**
 * As the Go implementation writes it: no spaces, this order, trailing zeros of the second cut off by nobody but Go.
 * For tools and tests; the sender uses {@link TunnelWire}.
 */
export function encodePingMessage(message: PingMessage): Uint8Array {
  const stamp = new Uint8Array(RFC3339_NANOS_LENGTH);
  writeRfc3339Nanos(stamp, 0, message.timeStamp);
  const { clusterId, msgType } = message;
  return encoder.encode(JSON.stringify({ clusterID: clusterId, msgType, timeStamp: decoder.decode(stamp) }));
}

/** Any JSON form of the message, unknown fields ignored, else `undefined`; never throws. */
export function decodePingMessage(bytes: Uint8Array): PingMessage | undefined {
  if (!isInBraces(bytes)) return undefined; // most junk: an exception would cost more than all the rest
  let json: unknown;
  try {
    json = JSON.parse(decoder.decode(bytes));
  } catch {
    return undefined;
  }
  if (typeof json !== 'object' || json === null) return undefined;
  const { clusterID, msgType, timeStamp } = json as Record<string, unknown>;
  if (typeof clusterID !== 'string' || typeof timeStamp !== 'string') return undefined;
  if (msgType !== 'PING' && msgType !== 'PONG') return undefined;
  const stamp = parseRfc3339(timeStamp);
  return stamp && { clusterId: clusterID, msgType, timeStamp: stamp };
}

/**
 * The wire as one tunnel of one run speaks it. Datagrams in the form that both implementations write are read byte by
 * byte; any other form takes the way over JSON.
 */
export class TunnelWire {
  readonly #clusterId: string;
  readonly #sender: string;
  readonly #senderBytes: Uint8Array;
  readonly #pongPrefix: Uint8Array;
  readonly #ping: Uint8Array;
  readonly #stampOffset: number;

  /** @throws RangeError if `sender` is not 8 hex digits */
  constructor(interfaceId: string, sender: string) {
    if (!/^[0-9a-f]{8}$/.test(sender)) throw new RangeError(`sender ${JSON.stringify(sender)}: want 8 hex digits`);
    this.#clusterId = clusterIdOf(interfaceId, sender);
    this.#sender = `#${sender}`;
    this.#senderBytes = encoder.encode(this.#sender);
    const epoch = { seconds: 0, nanos: 0 };
    this.#ping = encodePingMessage({ clusterId: this.#clusterId, msgType: 'PING', timeStamp: epoch });
    this.#stampOffset = this.#ping.length - TAIL.length - RFC3339_NANOS_LENGTH;
    this.#pongPrefix = toPong(this.#ping.slice(0, this.#stampOffset), this.#stampOffset - PING_MIDDLE.length);
  }

  /** A PING of this tunnel that {@link stampPing} may stamp again and again. */
  newPing(): Uint8Array {
    return this.#ping.slice();
  }

  stampPing(ping: Uint8Array, stamp: UnixNanos): void {
    writeRfc3339Nanos(ping, this.#stampOffset, stamp);
  }

  /** Never throws. Makes a PING's reply of the very bytes, so they must be the caller's own; it is never longer. */
  read(bytes: Uint8Array): Frame {
    const stampEnd = bytes.length - TAIL.length;
    if (!matches(bytes, stampEnd, TAIL)) return this.#readJson(bytes);
    if (matches(bytes, 0, this.#pongPrefix)) {
      const stamp = parseRfc3339Bytes(bytes, this.#pongPrefix.length, stampEnd);
      return stamp ? { kind: 'pong', stamp } : this.#readJson(bytes);
    }
    if (!matches(bytes, 0, HEAD)) return this.#readJson(bytes);
    const idEnd = endOfPlainString(bytes, HEAD.length);
    if (idEnd < 0 || !matches(bytes, idEnd, PING_MIDDLE)) return this.#readJson(bytes);
    const stamp = parseRfc3339Bytes(bytes, idEnd + PING_MIDDLE.length, stampEnd);
    if (stamp === undefined) return this.#readJson(bytes);
    if (matches(bytes, idEnd - this.#senderBytes.length, this.#senderBytes)) return dropped('own-ping');
    return { kind: 'ping', stamp, reply: toPong(bytes, idEnd) };
  }

  #readJson(bytes: Uint8Array): Frame {
    const message = decodePingMessage(bytes);
    if (message === undefined) return dropped('malformed');
    const { clusterId, timeStamp: stamp } = message;
    const own = clusterId.endsWith(this.#sender);
    if (message.msgType === 'PONG') {
      if (clusterId === this.#clusterId) return { kind: 'pong', stamp };
      return dropped(own ? 'wrong-tunnel' : 'foreign-pong');
    }
    if (own) return dropped('own-ping');
    const reply = replyFromJson(bytes);
    return reply.length > bytes.length ? dropped('malformed') : { kind: 'ping', stamp, reply };
  }
}

function dropped(reason: WireFault): Frame {
  return { kind: 'dropped', reason };
}

/** As Go does it: the three fields, written anew; the time stamp keeps its form. */
function replyFromJson(bytes: Uint8Array): Uint8Array {
  const { clusterID, timeStamp } = JSON.parse(decoder.decode(bytes)) as Record<string, unknown>;
  return encoder.encode(JSON.stringify({ clusterID, msgType: 'PONG', timeStamp }));
}

/** Turns PING into PONG in place; `idEnd` is where the clusterID's closing quote stands. */
function toPong(bytes: Uint8Array, idEnd: number): Uint8Array {
  bytes[idEnd + VOWEL_OFFSET] = VOWEL_O;
  return bytes;
}

function isInBraces(bytes: Uint8Array): boolean {
  let start = 0;
  let end = bytes.length - 1;
  while (isSpace(bytes[start])) start += 1;
  while (isSpace(bytes[end])) end -= 1;
  return bytes[start] === OPEN_BRACE && bytes[end] === CLOSE_BRACE;
}

/** As JSON has it. */
function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function matches(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  if (at < 0 || at + expected.length > bytes.length) return false;
  for (let i = 0; i < expected.length; i++) {
    if (bytes[at + i] !== expected[i]) return false;
  }
  return true;
}

/** Index of the closing quote of a JSON string of printable ASCII without escapes, or -1. */
function endOfPlainString(bytes: Uint8Array, start: number): number {
  for (let i = start; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte === QUOTE) return i;
    if (byte === BACKSLASH || byte < 0x20 || byte > 0x7e) return -1;
  }
  return -1;
}
