import type { Sighting } from './sighting.ts';

/** Places of one interface; beyond them only changes of value get one, up to twice as many. */
export const OUTBOX_CAPACITY = 1_000;

/** A sighting that waits for the bus. */
export type OutboxEntry = {
  readonly sighting: Sighting;
  /** How many others it stands for besides itself. */
  readonly coalesced: number;
  /** Its value differs from that of the sighting before it. */
  readonly isTransition: boolean;
};

type Node = {
  sighting: Sighting;
  coalesced: number;
  isTransition: boolean;
  state: 'queued' | 'sent' | 'stored';
  next: Node | undefined;
};

/** The entries of one interface, a linked list. */
type Lane = {
  head: Node | undefined;
  tail: Node | undefined;
  /** The first queued entry: everything before it is on its way or stored. */
  unsent: Node | undefined;
  length: number;
  onItsWay: number;
  isTransitionOnItsWay: boolean;
  lastValue: string | undefined;
  isReady: boolean;
};

/**
 * What the gateway has seen and the bus has not stored yet: bounded, whatever happens to the bus, and O(1) to add to.
 *
 * Each interface has a lane of its own, in order. A change of value travels alone: nothing else of its interface is on
 * its way beside it, so that no failure can put it out of order. In a full lane an unchanged sighting takes the place
 * of the unchanged one before it; in one that is full of changes as well, the last change takes the place of the last
 * but one.
 *
 * Mutable, since a copy a sighting would cost more than the sighting.
 */
export class Outbox {
  readonly #capacity: number;
  readonly #lanes = new Map<string, Lane>();
  /** Lanes that may send, in turn. */
  readonly #ready: Lane[] = [];
  #depth = 0;
  #coalesced = 0;
  #superseded = 0;

  constructor(capacity: number = OUTBOX_CAPACITY) {
    this.#capacity = capacity;
  }

  /** Entries that are not stored yet, those on their way included. */
  get depth(): number {
    return this.#depth;
  }

  /** Unchanged sightings that have no place of their own, ever. */
  get coalesced(): number {
    return this.#coalesced;
  }

  /** Changes of value that a later one stands for, ever. */
  get superseded(): number {
    return this.#superseded;
  }

  add(sighting: Sighting): void {
    const lane = this.#laneOf(sighting.interfaceId);
    const isTransition = lane.lastValue !== sighting.value;
    lane.lastValue = sighting.value;
    const { tail } = lane;
    if (tail?.state !== 'queued' || lane.length < this.#capacity) {
      this.#append(lane, sighting, isTransition);
    } else if (!tail.isTransition) {
      this.#coalesced += 1;
      replace(tail, sighting, isTransition);
    } else if (lane.length < 2 * this.#capacity) {
      this.#append(lane, sighting, isTransition);
    } else if (isTransition) {
      this.#superseded += 1;
      replace(tail, sighting, isTransition);
    } else {
      this.#coalesced += 1;
      tail.coalesced += 1;
    }
    this.#wake(lane);
  }

  /** The next entry to send, or `undefined` where nothing may go now; it ends in {@link stored} or {@link failed}. */
  take(): OutboxEntry | undefined {
    for (let lane = this.#ready.shift(); lane !== undefined; lane = this.#ready.shift()) {
      lane.isReady = false;
      const node = lane.unsent;
      if (node === undefined || !maySend(lane, node)) continue;
      node.state = 'sent';
      lane.onItsWay += 1;
      lane.isTransitionOnItsWay = node.isTransition;
      lane.unsent = firstQueued(node.next);
      this.#wake(lane);
      return node;
    }
    return undefined;
  }

  stored(entry: OutboxEntry): void {
    const lane = this.#settle(entry as Node, 'stored');
    while (lane.head?.state === 'stored') {
      if (lane.tail === lane.head) lane.tail = undefined;
      lane.head = lane.head.next;
      lane.length -= 1;
    }
    this.#depth -= 1;
    this.#wake(lane);
  }

  /** It goes again, before everything that is queued behind it. */
  failed(entry: OutboxEntry): void {
    const lane = this.#settle(entry as Node, 'queued');
    lane.unsent = firstQueued(lane.head);
    this.#wake(lane);
  }

  #settle(node: Node, state: 'stored' | 'queued'): Lane {
    const lane = this.#laneOf(node.sighting.interfaceId);
    node.state = state;
    lane.onItsWay -= 1;
    lane.isTransitionOnItsWay = false;
    return lane;
  }

  #append(lane: Lane, sighting: Sighting, isTransition: boolean): void {
    const node: Node = { sighting, coalesced: 0, isTransition, state: 'queued', next: undefined };
    if (lane.tail === undefined) lane.head = node;
    else lane.tail.next = node;
    lane.tail = node;
    lane.unsent ??= node;
    lane.length += 1;
    this.#depth += 1;
  }

  #wake(lane: Lane): void {
    if (lane.isReady || lane.unsent === undefined || !maySend(lane, lane.unsent)) return;
    lane.isReady = true;
    this.#ready.push(lane);
  }

  #laneOf(interfaceId: string): Lane {
    const known = this.#lanes.get(interfaceId);
    if (known !== undefined) return known;
    const lane: Lane = {
      ...{ head: undefined, tail: undefined, unsent: undefined, length: 0 },
      ...{ onItsWay: 0, isTransitionOnItsWay: false, lastValue: undefined, isReady: false },
    };
    this.#lanes.set(interfaceId, lane);
    return lane;
  }
}

function replace(node: Node, sighting: Sighting, isTransition: boolean): void {
  node.sighting = sighting;
  node.isTransition = isTransition;
  node.coalesced += 1;
}

function maySend(lane: Lane, node: Node): boolean {
  return node.isTransition ? lane.onItsWay === 0 : !lane.isTransitionOnItsWay;
}

function firstQueued(from: Node | undefined): Node | undefined {
  let node = from;
  while (node !== undefined && node.state !== 'queued') node = node.next;
  return node;
}
