import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { MAX_DELAYED, openRelayNetwork, type RelayNetwork, type RelayOptions } from '../../infra/lab/relay-network.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import type { GatewayMode } from '../../shared/domain/tunnel-interface.ts';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Bounds a failure, and is no expectation. */
const until = (condition: () => boolean | Promise<boolean>) => vi.waitUntil(condition, { timeout: 8_000, interval: 5 });

const disposables: AsyncDisposable[] = [];

afterEach(async () => {
  for (const disposable of disposables.splice(0).reverse()) await disposable[Symbol.asyncDispose]();
});

describe('relay network', () => {
  test('hands each side its own loopback endpoints of every tunnel, none twice', async () => {
    const network = await open({ tunnels: 64 });
    const ends = [...network.tunnels('server'), ...network.tunnels('client')].flatMap(({ local, peer }) => [
      local,
      peer,
    ]);
    expect(ends.every(({ address }) => address === '127.0.0.1')).toBe(true);
    expect(new Set(ends.map(({ port }) => port)).size).toBe(4 * 64);
    expect(network.tunnels('client')[63]?.interfaceId).toBe('liqo-tunnel63');
  });

  test('forwards both ways, and each side sees its configured peer as the source', async () => {
    const network = await open();
    const server = await gateway(network, 'server');
    const client = await gateway(network, 'client');
    server.send('ping');
    expect(await client.next()).toEqual({ text: 'ping', from: client.peer });
    client.send('pong');
    expect(await server.next()).toEqual({ text: 'pong', from: server.peer });
    expect(network.counts('liqo-tunnel')).toMatchObject({ forwarded: 2, cut: 0, lost: 0 });
  });

  test('drops everything of a cut tunnel both ways, and nothing of the others, until it is restored', async () => {
    const network = await open({ tunnels: 2 });
    const [cut, other] = [await pair(network, 0), await pair(network, 1)];
    network.cut('liqo-tunnel');
    cut.server.send('lost');
    cut.client.send('lost');
    other.server.send('through');
    expect(await other.client.next()).toMatchObject({ text: 'through' });
    await until(() => network.counts('liqo-tunnel').cut === 2);
    network.restore('liqo-tunnel');
    cut.server.send('back');
    expect(await cut.client.next()).toMatchObject({ text: 'back' });
    expect(network.counts('liqo-tunnel1')).toMatchObject({ forwarded: 1, cut: 0 });
  });

  test('delays one direction only', async () => {
    const clock = new VirtualClock();
    const network = await open({ clock });
    const { server, client } = await pair(network, 0);
    network.impair('liqo-tunnel', 'server', { delayMs: 50 });
    server.send('slow');
    client.send('fast');
    expect(await server.next()).toMatchObject({ text: 'fast' });
    await clock.advance(49);
    expect(client.received).toEqual([]);
    await until(async () => {
      await clock.advance(50); // the datagram may only now have reached the relay
      return client.received.length === 1;
    });
    network.impair('liqo-tunnel', 'server', {});
    server.send('fast again');
    expect(await client.next()).toMatchObject({ text: 'slow' });
    expect(await client.next()).toMatchObject({ text: 'fast again' });
  });

  test('drops what the random function says, and copies what it lets pass', async () => {
    const draws = [0.1, 0.9, 0.2];
    const network = await open({ random: () => draws.shift() ?? 1 });
    const { server, client } = await pair(network, 0);
    network.impair('liqo-tunnel', 'server', { lossRate: 0.5, duplicates: 2 });
    for (const text of ['a', 'b', 'c']) server.send(text);
    await until(() => draws.length === 0);
    for (let copy = 0; copy < 3; copy++) expect(await client.next()).toMatchObject({ text: 'b' });
    expect(network.counts('liqo-tunnel')).toMatchObject({ forwarded: 3, lost: 2 });
  });

  test('drops and counts what does not come from the gateway of that side', async () => {
    const network = await open();
    const { server, client } = await pair(network, 0);
    const stranger = await bind({ address: '127.0.0.1', port: 0 });
    stranger.send('intruder', server.peer.port, server.peer.address);
    await until(() => network.counts('liqo-tunnel').strangers === 1);
    server.send('known');
    expect(await client.next()).toMatchObject({ text: 'known' });
  });

  test('holds back a bounded number of datagrams, and forgets them when it closes', async () => {
    const clock = new VirtualClock();
    const network = await open({ clock });
    const { server, client } = await pair(network, 0);
    network.impair('liqo-tunnel', 'server', { delayMs: 1_000, duplicates: MAX_DELAYED + 9 });
    server.send('flood');
    await until(() => network.counts('liqo-tunnel').overflowed === 10);
    await network.close();
    await clock.advance(2_000);
    expect(client.received).toEqual([]);
  });

  test('scales: new tunnels work, those that stay keep their endpoints, removed ones are unknown', async () => {
    const network = await open({ tunnels: 2 });
    const before = network.tunnels('server');
    await network.scale(4);
    expect(network.tunnels('server').slice(0, 2)).toEqual(before);
    const { server, client } = await pair(network, 3);
    client.send('hello');
    expect(await server.next()).toMatchObject({ text: 'hello' });
    await network.scale(1);
    expect(network.tunnels('server')).toEqual(before.slice(0, 1));
    expect(() => network.cut('liqo-tunnel1')).toThrow('no tunnel "liqo-tunnel1": there are liqo-tunnel');
    await expect(network.scale(65)).rejects.toThrow('tunnels 65: want an integer from 1 to 64');
  });

  test('survives a gateway that is not there', async () => {
    const network = await open();
    const server = await gateway(network, 'server');
    for (let i = 0; i < 3; i++) server.send('to nobody');
    await until(() => {
      const { forwarded, failed } = network.counts('liqo-tunnel');
      return forwarded + failed >= 3;
    });
    const client = await gateway(network, 'client');
    server.send('hello');
    expect(await client.next()).toMatchObject({ text: 'hello' });
  });
});

async function open(options: Partial<RelayOptions> = {}): Promise<RelayNetwork> {
  const network = await openRelayNetwork({ tunnels: 1, clock: systemClock, ...options });
  disposables.push(network);
  return network;
}

async function pair(network: RelayNetwork, index: number) {
  return { server: await gateway(network, 'server', index), client: await gateway(network, 'client', index) };
}

/** A gateway's end of one tunnel. */
async function gateway(network: RelayNetwork, side: GatewayMode, index = 0) {
  const { local, peer } = network.tunnels(side)[index] ?? expect.fail(`no tunnel ${index}`);
  const socket = await bind(local);
  const received: { readonly text: string; readonly from: Endpoint }[] = [];
  socket.on('message', (bytes, { address, port }) => received.push({ text: `${bytes}`, from: { address, port } }));
  return {
    peer,
    received,
    send: (text: string) => socket.send(text, peer.port, peer.address),
    next: async () => {
      await until(() => received.length > 0);
      return received.shift();
    },
  };
}

async function bind({ address, port }: Endpoint): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.bind(port, address);
  await once(socket, 'listening');
  disposables.push({
    [Symbol.asyncDispose]: async () => {
      socket.close();
    },
  });
  return socket;
}
