import { median } from './median.ts';
import { decodePingMessage } from './ping-wire.ts';
import { betweenMs, type UnixNanos } from './rfc3339-nanos.ts';
import type { UdpPacket } from './udp-packet.ts';

/** Which of the two ends of each tunnel captured: only there is the time from PING to PONG a round trip. */

type Flow = {
  readonly from: string;
  readonly to: string;
  readonly outstanding: Map<string, UnixNanos>;
  readonly answerTimesMs: number[];
  sentOut: number;
  receivedIn: number;
};

export type CaptureSide = {
  readonly local: string;
  readonly peer: string;
  /** `given`: by the user. `direction`: the capture tells. `answers`: the other's PINGs are answered at once. `guess`: nothing tells. */
  readonly how: 'given' | 'direction' | 'answers' | 'guess';
};

/** Samples of one flow are enough; the rest of a long capture tells no more. */
const MAX_SAMPLES = 500;

export class CaptureSides {
  readonly #given: ReadonlySet<string>;
  readonly #pingPort: number;
  readonly #flows = new Map<string, Flow>();

  /** @param local - addresses that the user says are local; may be empty */
  constructor(local: readonly string[], pingPort: number) {
    this.#given = new Set(local);
    this.#pingPort = pingPort;
  }

  take({ source, destination, payload, direction }: UdpPacket, at: UnixNanos): void {
    if (destination.port !== this.#pingPort && source.port !== this.#pingPort) return;
    const message = decodePingMessage(payload);
    if (message === undefined) return;
    const stamp = `${message.timeStamp.seconds}.${message.timeStamp.nanos}`;
    if (message.msgType === 'PING') {
      const flow = this.#flowOf(source.address, destination.address);
      if (direction === 'out') flow.sentOut += 1;
      if (direction === 'in') flow.receivedIn += 1;
      if (flow.answerTimesMs.length < MAX_SAMPLES) flow.outstanding.set(stamp, at);
      return;
    }
    const flow = this.#flowOf(destination.address, source.address);
    const askedAt = flow.outstanding.get(stamp);
    if (askedAt === undefined) return;
    flow.outstanding.delete(stamp);
    flow.answerTimesMs.push(betweenMs(askedAt, at));
  }

  /** Addresses that exchange PINGs, in the order in which they came. */
  addresses(): readonly string[] {
    return [...new Set([...this.#flows.values()].flatMap(({ from, to }) => [from, to]))];
  }

  /** One for each pair of addresses between which there are PINGs, in the order in which they came. */
  read(): CaptureSide[] {
    const sides: CaptureSide[] = [];
    for (const flow of this.#flows.values()) {
      const ends = [flow.from, flow.to];
      if (sides.some(({ local, peer }) => ends.includes(local) && ends.includes(peer))) continue;
      const back = this.#flows.get(keyOf(flow.to, flow.from));
      sides.push(this.#sideOf(flow, back));
    }
    return sides;
  }

  #sideOf(flow: Flow, back: Flow | undefined): CaptureSide {
    const here = { local: flow.from, peer: flow.to };
    const there = { local: flow.to, peer: flow.from };
    if (this.#given.has(flow.from) !== this.#given.has(flow.to)) {
      return { ...(this.#given.has(flow.from) ? here : there), how: 'given' };
    }
    const outwards = flow.sentOut + (back?.receivedIn ?? 0);
    const inwards = flow.receivedIn + (back?.sentOut ?? 0);
    if (outwards !== inwards) return { ...(outwards > inwards ? here : there), how: 'direction' };
    const [mine, theirs] = [median(flow.answerTimesMs), median(back?.answerTimesMs ?? [])];
    if (mine !== undefined && theirs !== undefined && mine !== theirs) {
      return { ...(mine > theirs ? here : there), how: 'answers' };
    }
    return { ...here, how: 'guess' };
  }

  #flowOf(from: string, to: string): Flow {
    const key = keyOf(from, to);
    let flow = this.#flows.get(key);
    if (flow === undefined) {
      flow = { from, to, outstanding: new Map(), answerTimesMs: [], sentOut: 0, receivedIn: 0 };
      this.#flows.set(key, flow);
    }
    return flow;
  }
}

function keyOf(from: string, to: string): string {
  return `${from}>${to}`;
}
