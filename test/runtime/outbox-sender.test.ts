import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { BusMessage } from '../../shared/domain/cloud-event.ts';
import type { GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import type { Sighting } from '../../shared/domain/sighting.ts';
import { BusError, type BusErrorCode, type BusHealth, type EventBus } from '../../shared/ports/event-bus.ts';
import { type GatewayIdentity, OutboxSender, WINDOW } from '../../shared/runtime/outbox-sender.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Stores what it is given after a delay, drops repeats by their id, and can be away or full. */
class FakeBus implements Pick<EventBus, 'publish' | 'onHealthChange'> {
  readonly stored: BusMessage[] = [];
  fault: BusErrorCode | undefined;
  /** The message is stored, but nobody learns of it. */
  losesAcks = false;
  publishes = 0;
  atOnce = 0;
  mostAtOnce = 0;
  #sequence = 1_000;
  readonly #clock: VirtualClock;
  #listener: (health: BusHealth) => void = () => {};

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  async publish(message: BusMessage) {
    this.publishes += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.atOnce);
    await this.#clock.sleep(1).finally(() => this.atOnce--);
    if (this.fault !== undefined) throw new BusError(this.fault, `publish: ${this.fault}`);
    const id = message.headers['ce-id'];
    const known = this.stored.findIndex(({ headers }) => headers['ce-id'] === id);
    if (known < 0) this.stored.push(message);
    if (this.losesAcks) throw new BusError('timeout', 'publish: no ack within 5000 ms');
    this.#sequence += 1;
    return { stream: 'X', sequence: this.#sequence, duplicate: known >= 0 };
  }

  onHealthChange(listener: (health: BusHealth) => void) {
    this.#listener = listener;
    return () => {};
  }

  reconnect(): void {
    this.fault = undefined;
    this.#listener({ connected: true });
  }

  announcements(): GatewayAnnouncement[] {
    return this.#dataOf('gateways.');
  }

  observations(): Observation[] {
    return this.#dataOf('keepalive.');
  }

  #dataOf<Data>(prefix: string): Data[] {
    const messages = this.stored.filter(({ subject }) => subject.startsWith(prefix));
    return messages.map(({ data }) => JSON.parse(new TextDecoder().decode(data)));
  }
}

const IDENTITY: GatewayIdentity = {
  ...{ namespace: 'liqo-tenant-rome', connection: 'gw-rome', gatewayName: 'rome', gatewayUid: 'uid-1' },
  ...{ mode: 'server', remoteClusterId: 'rome' },
};

const sighting = (sequence: number, value: Sighting['value'] = 'Connected', interfaceId = 'liqo-tunnel'): Sighting => ({
  ...{ interfaceId, sequence, value, kind: 'pong', rttNs: 1_000 },
  ...{ monotonicMs: sequence, observedAtUnixMs: Date.UTC(2026, 0, 1) + sequence },
});
const many = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => sighting(from + index));

let clock: VirtualClock;
let bus: FakeBus;
let failures: BusErrorCode[];
let sender: OutboxSender;

beforeEach(() => {
  clock = new VirtualClock();
  bus = new FakeBus(clock);
  failures = [];
});
afterEach(async () => {
  const closed = sender.close(0);
  await clock.advance(10_000);
  await closed;
});

function start(interfaces: readonly string[] = ['liqo-tunnel']): void {
  sender = new OutboxSender(IDENTITY, 'run1', interfaces, {
    bus: bus as unknown as EventBus,
    clock,
    onFailure: (code) => failures.push(code),
  });
}

describe('the announcement', () => {
  test('goes first, without an epoch; its sequence is the epoch of all that follows', async () => {
    start(['liqo-tunnel', 'liqo-tunnel1']);
    sender.add(many(1, 3));
    await clock.advance(100);
    expect(bus.stored[0]?.subject).toBe('gateways.liqo-tenant-rome.gw-rome');
    expect(bus.announcements()).toEqual([
      {
        ...{ ...IDENTITY, interfaces: ['liqo-tunnel', 'liqo-tunnel1'], announcedAt: '2026-01-01T00:00:00.000Z' },
      },
    ]);
    expect(sender.epoch).toBe(1_001);
    expect(bus.observations().map(({ gatewayEpoch }) => gatewayEpoch)).toEqual([1_001, 1_001, 1_001]);
  });

  test('is repeated with the epoch when the tunnels change, before what the new ones say', async () => {
    start();
    await clock.advance(100);
    sender.announce(['liqo-tunnel', 'liqo-tunnel1']);
    sender.add([sighting(1, 'Connecting', 'liqo-tunnel1')]);
    await clock.advance(100);
    expect(bus.announcements()[1]).toMatchObject({ epoch: 1_001, interfaces: ['liqo-tunnel', 'liqo-tunnel1'] });
    expect(bus.stored.map(({ subject }) => subject.split('.')[0])).toEqual(['gateways', 'gateways', 'keepalive']);
  });

  test('is repeated after a reconnection: the streams may have been lost', async () => {
    start();
    await clock.advance(100);
    bus.reconnect();
    await clock.advance(100);
    expect(bus.announcements().map(({ epoch }) => epoch)).toEqual([undefined, 1_001]);
  });

  test('that was stored without an ack keeps its id, so that the stream drops the repeat', async () => {
    bus.losesAcks = true;
    start();
    await clock.advance(150);
    bus.losesAcks = false;
    await clock.advance(5_000);
    expect(bus.announcements().length).toBe(1);
    expect(sender.epoch).toBeGreaterThan(0);
  });
});

describe('an observation', () => {
  test('has the subject, the id and the fields of the contract', async () => {
    start();
    sender.add([sighting(1)]);
    await clock.advance(100);
    const message = bus.stored[1];
    expect(message?.subject).toBe('keepalive.liqo-tenant-rome.gw-rome.liqo-tunnel');
    expect(message?.headers).toMatchObject({
      'Nats-Msg-Id': 'run1.liqo-tunnel.1',
      'ce-id': 'run1.liqo-tunnel.1',
      'ce-type': 'wg-keepalive.observation.v1',
      'ce-source': '/gateways/liqo-tenant-rome/rome',
      'ce-time': '2026-01-01T00:00:00.001Z',
    });
    expect(bus.observations()).toEqual([
      {
        ...{ namespace: 'liqo-tenant-rome', connection: 'gw-rome', interfaceId: 'liqo-tunnel' },
        ...{ gatewayEpoch: 1_001, sequence: 1, monotonicMs: 1, kind: 'pong', value: 'Connected' },
        ...{ rttNs: 1_000, observedAt: '2026-01-01T00:00:00.001Z' },
      },
    ]);
  });

  test('goes in a window of 512 with the others', async () => {
    start();
    sender.add(many(1, 900));
    await clock.advance(1_000);
    expect(bus.mostAtOnce).toBe(WINDOW);
    expect(bus.observations().map(({ sequence }) => sequence)).toEqual(many(1, 900).map(({ sequence }) => sequence));
  });
});

describe('a bus that fails', () => {
  test.for(['unavailable', 'full', 'timeout', 'denied'] as const)(
    '%s: nothing is lost, doubled or reordered',
    async (code) => {
      start();
      sender.add(many(1, 10));
      await clock.advance(100);
      bus.fault = code;
      for (let sequence = 11; sequence <= 400; sequence++) {
        sender.add([sighting(sequence, sequence % 40 < 20 ? 'Connected' : 'Error')]);
        await clock.advance(250);
      }
      expect(sender.depth).toBe(390);
      expect(failures.length).toBeGreaterThan(10);
      expect(new Set(failures)).toEqual(new Set([code]));
      bus.fault = undefined;
      await clock.advance(5_000);
      expect(sender.depth).toBe(0);
      expect(bus.observations().map(({ sequence }) => sequence)).toEqual(many(1, 400).map(({ sequence }) => sequence));
    },
  );

  test('is not hurried: at most one try every two seconds once it is away for long', async () => {
    bus.fault = 'unavailable';
    start();
    await clock.advance(60_000);
    const before = bus.publishes;
    await clock.advance(60_000);
    expect(bus.publishes - before).toBeLessThanOrEqual(31);
  });

  test('that comes back is used at once', async () => {
    bus.fault = 'unavailable';
    start();
    sender.add(many(1, 5));
    await clock.advance(60_300);
    bus.reconnect();
    await clock.advance(20);
    expect(bus.observations().length).toBe(5);
  });
});

describe('the end', () => {
  test('waits until everything is stored', async () => {
    start();
    sender.add(many(1, 1_000));
    const closed = sender.close(10_000);
    await clock.advance(1_000);
    expect(await closed).toBe(0);
    expect(bus.observations().length).toBe(1_000);
  });

  test('comes in time without a bus, and says what was not sent', async () => {
    start();
    await clock.advance(100);
    bus.fault = 'unavailable';
    sender.add(many(1, 7));
    const startMs = clock.monotonicMs();
    const closed = sender.close(8_000).then((unsent) => [unsent, clock.monotonicMs() - startMs]);
    await clock.advance(9_000);
    expect(await closed).toEqual([7, 8_000]);
    const { publishes } = bus;
    await clock.advance(60_000);
    expect(bus.publishes).toBe(publishes);
  });
});
