import { afterEach, describe, expect, test } from 'vitest';
import { engineOn } from '../../shared/cli/ping-engine.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import { decodePingMessage, encodePingMessage } from '../../shared/domain/ping-wire.ts';
import { EngineWorld, mirrored, OUR_SENDER, PORT, tunnelAt } from '../support/engine-world.ts';
import { answerAsGo, startFakePeer } from '../support/peers.ts';

const { local: US, peer: PEER } = tunnelAt(0);
const ours = { clusterId: `liqo-tunnel#${OUR_SENDER}` };
let world: EngineWorld;

afterEach(() => world.engine.stop());

function create(...options: ConstructorParameters<typeof EngineWorld>): EngineWorld {
  world = new EngineWorld(...options);
  return world;
}

describe('durations', () => {
  test('come from the monotonic clock: steps of the wall clock change no latency, verdict or cadence (C1)', async () => {
    const { clock, network } = create();
    const peer = await startFakePeer(network, PEER);
    network.path = () => [25];
    for (const stepMs of [0, 3_600_000, -7_200_000, 3_600_000]) {
      await clock.advance(2_010); // a PING is on its way
      clock.stepUnix(stepMs);
      await clock.advance(17_990);
    }
    expect(peer.pings.length).toBe(40);
    expect(world.sightings.length).toBe(40);
    for (const { kind, value, rttNs } of world.sightings) {
      expect({ kind, value, rttNs }).toEqual({ kind: 'pong', value: 'Connected', rttNs: 50_000_000 });
    }
  });

  test('do not drift: 10 minutes of a loop that is busy 300 ms in each interval (C30)', async () => {
    const { clock, network } = create();
    const peer = await startFakePeer(network, PEER);
    for (let tick = 0; tick < 300; tick++) {
      await clock.advance(1_700);
      world.stop(300); // time goes by, nothing runs
    }
    expect(Math.abs(peer.pings.length - 300)).toBeLessThanOrEqual(3);
    expect(world.sightings.filter(({ value }) => value === 'Error')).toEqual([]);
  });

  test.for([
    [2_000, 5],
    [100, 3],
    [50, 3],
  ])('Error comes at the deadline itself: %i ms × %i', async ([intervalMs = 0, lossThreshold = 0]) => {
    const { clock, network } = create({ intervalMs, lossThreshold, tunnels: 3 });
    const peers = [];
    for (const index of [0, 1, 2]) peers.push(await startFakePeer(network, tunnelAt(index).peer));
    await clock.advance(10.4 * intervalMs);
    peers[1]?.close();
    await clock.advance((lossThreshold + 2) * intervalMs);
    const observations = world.of(1);
    const down = observations.find(({ kind }) => kind === 'down');
    const pong = observations.findLast(({ kind }) => kind === 'pong');
    expect((down?.monotonicMs ?? 0) - (pong?.monotonicMs ?? 0)).toBeCloseTo(intervalMs * lossThreshold, 6);
    for (const index of [0, 2]) expect(new Set(world.of(index).map(({ kind }) => kind))).toEqual(new Set(['pong']));
  });
});

describe('a PONG', () => {
  test('with an altered stamp, or one that nobody sent, changes nothing (C2)', async () => {
    const { clock, network } = create();
    await startFakePeer(network, PEER, (pong) => {
      const message = decodePingMessage(pong);
      if (message === undefined) return [];
      const { timeStamp } = message;
      const shifted = (seconds: number) => ({ ...timeStamp, seconds: timeStamp.seconds + seconds });
      return [
        encodePingMessage({ ...message, timeStamp: shifted(-3_600) }),
        encodePingMessage({ ...message, timeStamp: shifted(3_600) }),
        encodePingMessage({ ...message, timeStamp: { seconds: 0, nanos: 1 } }),
        new TextEncoder().encode(new TextDecoder().decode(pong).replace(/"timeStamp":".*"/, '"timeStamp":"garbage"')),
        pong.map((byte, index) => (index === pong.length - 4 ? byte ^ 1 : byte)),
      ];
    });
    await clock.advance(10_100);
    expect(world.sightings.filter(({ kind }) => kind === 'pong')).toEqual([]);
    expect(world.last()).toMatchObject({ kind: 'down', value: 'Error', reason: 'NeverAnswered', monotonicMs: 10_000 });
    const { unknown = 0, malformed = 0 } = await world.dropped();
    expect(unknown).toBeGreaterThan(15);
    expect(malformed).toBeGreaterThan(4);
  });

  test('that comes three times counts once; one that is repeated for ever keeps nothing alive (C3)', async () => {
    const { clock, network } = create();
    let recorded: Uint8Array | undefined;
    let isAlive = true;
    await startFakePeer(network, PEER, (pong) => {
      if (isAlive) recorded = pong;
      return isAlive ? [pong, pong, pong] : [];
    });
    await clock.advance(20_100);
    expect(world.sightings.length).toBe(11);
    isAlive = false;
    const repeat = () => {
      network.transmit({ bytes: recorded ?? new Uint8Array(), from: PEER, to: US });
      clock.after(1_000, repeat);
    };
    clock.after(1_000, repeat);
    await clock.advance(12_000);
    expect(world.last()).toMatchObject({ kind: 'down', value: 'Error' });
    expect((await world.dropped()).duplicate).toBeGreaterThanOrEqual(22 + 11);
  });

  test('of an older PING never overwrites that of a newer one (C4)', async () => {
    const { clock, network } = create({ intervalMs: 100, lossThreshold: 5 });
    let pongs = 0;
    network.path = ({ to }) => (to === US || to.address === US.address ? [pongs++ % 2 === 0 ? 250 : 5] : [0]);
    await startFakePeer(network, PEER);
    await clock.advance(5_000);
    const measured = world.sightings.filter(({ kind }) => kind === 'pong').map(({ rttNs }) => rttNs);
    expect(measured.length).toBeGreaterThan(20);
    expect(new Set(measured)).toEqual(new Set([5_000_000]));
    expect((await world.dropped()).reordered).toBeGreaterThan(20);
  });

  test('from another source, through another tunnel or for another run is nobody’s', async () => {
    const { clock, network } = create({ tunnels: 2 });
    const second = tunnelAt(1);
    network.path = ({ bytes, to }) => {
      if (decodePingMessage(bytes)?.msgType !== 'PING') return [0];
      const pong = answerAsGo(bytes) as Uint8Array;
      const strangers = [
        { from: { address: '10.9.9.9', port: PORT }, to: to.address === PEER.address ? US : second.local },
        { from: second.peer, to: to.address === PEER.address ? second.local : US },
      ];
      for (const { from, to: target } of strangers) network.deliver({ bytes: pong, from, to: target });
      const foreign = new TextDecoder().decode(pong).replace(OUR_SENDER, 'ffffffff');
      network.deliver({ bytes: new TextEncoder().encode(foreign), from: PEER, to: US });
      return [];
    };
    await clock.advance(10_600);
    expect(world.sightings.filter(({ kind }) => kind === 'pong')).toEqual([]);
    const dropped = await world.dropped();
    for (const reason of ['wrong-source', 'wrong-tunnel', 'foreign-pong']) {
      expect(dropped[reason], reason).toBeGreaterThan(5);
    }
  });
});

describe('a PING', () => {
  const theirs = encodePingMessage({ clusterId: 'them', msgType: 'PING', timeStamp: { seconds: 1, nanos: 5 } });
  const pong = encodePingMessage({ ...ours, msgType: 'PONG', timeStamp: { seconds: 1, nanos: 5 } });

  test('is answered once, to the peer alone, never longer than it came; a PONG is never answered (C5)', async () => {
    const { clock, network } = create({ intervalMs: 3_600_000 });
    await clock.advance(1);
    const before = network.sent.length;
    const stranger = { address: '10.7.7.7', port: PORT };
    for (let i = 0; i < 5; i++) network.deliver({ bytes: theirs, from: stranger, to: US });
    for (let i = 0; i < 5; i++) network.deliver({ bytes: pong, from: PEER, to: US });
    await clock.advance(1);
    expect(network.sent.length).toBe(before);
    for (let i = 0; i < 5; i++) network.deliver({ bytes: theirs, from: PEER, to: US });
    await clock.advance(1);
    const replies = network.sent.slice(before);
    expect(replies.map(({ to }) => to)).toEqual([PEER]);
    expect(replies[0]?.bytes.length).toBe(theirs.length);
    expect(await world.dropped()).toMatchObject({ 'wrong-source': 5, unknown: 5, 'repeated-ping': 4 });
    expect(world.snapshot?.answered).toBe(1);
  });

  test('of this run that comes back is not the peer’s, and makes nothing healthy (C6)', async () => {
    const { clock, network } = create();
    network.path = ({ bytes }) => {
      network.deliver({ bytes, from: PEER, to: US });
      return [];
    };
    await clock.advance(12_000);
    expect(new Set(world.sightings.map(({ value }) => value))).toEqual(new Set(['Connecting', 'Error']));
    const { 'own-ping': own = 0, ...others } = await world.dropped();
    expect(own).toBeGreaterThan(8);
    expect(others).toEqual({});
  });

  test('is due when it is, whatever junk comes between: 20,000 a second for ten seconds', async () => {
    const { clock, network } = create({ tunnels: 2 });
    for (const index of [0, 1]) await startFakePeer(network, tunnelAt(index).peer);
    const due: number[] = [];
    network.path = (datagram) => {
      if (datagram.from.address === US.address) due.push(clock.monotonicMs());
      return [1];
    };
    const junk = [new Uint8Array(900), new Uint8Array(), new TextEncoder().encode('{"clusterID":"'), pong];
    const flood = () => {
      for (let i = 0; i < 200; i++) network.deliver({ bytes: junk[i % 4] as Uint8Array, from: PEER, to: US });
      clock.after(10, flood);
    };
    flood();
    await clock.advance(10_000);
    expect(due).toEqual(Array.from({ length: 6 }, (_, tick) => tick * 2_000));
    expect(new Set(world.sightings.map(({ kind }) => kind))).toEqual(new Set(['pong']));
    expect(await world.dropped()).toMatchObject({ malformed: 165_000, unknown: 55_000 });
  });

  test('that is oversize is dropped', async () => {
    const { network } = create({ bufferSizeBytes: 64 });
    await world.clock.advance(1);
    network.deliver({ bytes: theirs, from: PEER, to: US });
    expect(await world.dropped()).toEqual({ oversize: 1 });
  });
});

describe('a peer of the Go implementation', () => {
  test('answers with its own encoding, and is answered, on several tunnels (both ways)', async () => {
    const { clock, network } = create({ tunnels: 3 });
    const peers = [];
    for (const index of [0, 1, 2]) peers.push(await startFakePeer(network, tunnelAt(index).peer));
    const goPing = '{"clusterID":"rome","msgType":"PING","timeStamp":"2026-01-02T03:04:05.12Z"}';
    for (const index of [0, 1, 2]) {
      const { local, peer } = tunnelAt(index);
      network.transmit({ bytes: new TextEncoder().encode(goPing), from: peer, to: local });
    }
    await clock.advance(10_000);
    for (const index of [0, 1, 2]) {
      expect(world.of(index).length).toBeGreaterThanOrEqual(5);
      expect(new Set(world.of(index).map(({ kind }) => kind))).toEqual(new Set(['pong']));
      expect(peers[index]?.pongs).toEqual([
        { clusterId: 'rome', msgType: 'PONG', timeStamp: { seconds: 1_767_323_045, nanos: 120_000_000 } },
      ]);
    }
  });

  test('that answers on the first tunnel only shows as such in the reason of the others', async () => {
    const { clock, network } = create({ tunnels: 3 });
    await startFakePeer(network, PEER);
    await clock.advance(14_000);
    expect(world.last(0)).toMatchObject({ value: 'Connected' });
    for (const index of [1, 2]) {
      expect(world.last(index)).toMatchObject({ value: 'Error', reason: 'NeverAnswered:FirstTunnelOnly' });
      expect(world.last(index)?.message).toContain('the peer answers on liqo-tunnel only: does it run one tunnel?');
    }
  });

  test('two engines measure each other', async () => {
    const { clock, network } = create({ tunnels: 2 });
    const theirSightings: string[] = [];
    const tunnels = [0, 1].map((index) => mirrored(tunnelAt(index)));
    const other = engineOn({ sockets: network.host(), clock })(
      { tunnels, settings: DEFAULT_PING_SETTINGS, sender: '99999999', batchMs: 0 },
      ({ sightings }) => theirSightings.push(...sightings.map(({ value }) => value)),
    );
    await clock.advance(20_000);
    expect(new Set(world.sightings.map(({ value }) => value))).toEqual(new Set(['Connected']));
    expect(new Set(theirSightings)).toEqual(new Set(['Connected']));
    expect(await world.dropped()).toEqual({});
    await other.stop();
  });
});
