import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, describe, expect, test } from 'vitest';
import { UdpSockets } from '../../shared/adapters/udp-sockets.ts';
import type { DatagramSocket, Endpoint } from '../../shared/ports/datagram-socket.ts';
import { eventually } from '../support/eventually.ts';

const LOCAL = { address: '127.0.10.1', port: 24_520 };
const PEER = { address: '127.0.10.2', port: 24_520 };

const sockets = new UdpSockets();
const cleanUp: { close(): unknown }[] = [];
afterEach(() => {
  for (const one of cleanUp.splice(0)) one.close();
});

type Opened = { socket: DatagramSocket; got: { text: string; from: Endpoint }[]; errors: string[] };

async function open(local = LOCAL, peer = PEER): Promise<Opened> {
  const got: Opened['got'] = [];
  const errors: string[] = [];
  const socket = await sockets.open({
    ...{ local, peer },
    onMessage: (bytes, { address, port }) => {
      got.push({ text: new TextDecoder().decode(bytes), from: { address, port } });
    },
    onError: (code) => errors.push(code),
  });
  cleanUp.push(socket);
  return { socket, got, errors };
}

async function plain({ address, port }: Endpoint): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.bind(port, address);
  await once(socket, 'listening');
  cleanUp.push(socket);
  return socket;
}

const send = ({ socket }: Opened, text: string, to: Endpoint) =>
  new Promise<string | undefined>((resolve) => socket.send(new TextEncoder().encode(text), to, resolve));

describe('a tunnel’s socket', () => {
  test('hears its peer, whatever its port, and strangers too, each with its address', async () => {
    const ours = await open();
    const peer = await plain(PEER);
    const otherPort = await plain({ ...PEER, port: PEER.port + 1 });
    const stranger = await plain({ address: '127.0.10.9', port: PEER.port });
    for (const [socket, text] of [
      [peer, 'peer'],
      [otherPort, 'other port'],
      [stranger, 'stranger'],
    ] as const) {
      socket.send(text, LOCAL.port, LOCAL.address);
    }
    await eventually(() => ours.got.length === 3, 'all three');
    expect(Object.fromEntries(ours.got.map(({ text, from }) => [text, from]))).toEqual({
      peer: PEER,
      'other port': { ...PEER, port: PEER.port + 1 },
      stranger: { address: '127.0.10.9', port: PEER.port },
    });
  });

  test('sends from its own address and port, to the peer and to others', async () => {
    const ours = await open();
    for (const to of [PEER, { ...PEER, port: PEER.port + 1 }]) {
      const there = await plain(to);
      const arrival = once(there, 'message');
      expect(await send(ours, 'hello', to)).toBeUndefined();
      const [bytes, from] = await arrival;
      expect([String(bytes), from.address, from.port]).toEqual(['hello', LOCAL.address, LOCAL.port]);
    }
  });

  test('learns that the peer’s port is closed, and still sends every datagram', async () => {
    const ours = await open();
    for (let i = 0; i < 5; i++) {
      expect(await send(ours, 'anybody?', PEER)).toBeUndefined();
      await eventually(() => ours.errors.length > i, 'ECONNREFUSED');
    }
    expect(new Set(ours.errors)).toEqual(new Set(['ECONNREFUSED']));
    const peer = await plain(PEER);
    const arrival = once(peer, 'message');
    expect(await send(ours, 'you there', PEER)).toBeUndefined();
    expect(String((await arrival)[0])).toBe('you there');
  });

  test('that is closed refuses to send, and closing twice is fine', async () => {
    const ours = await open();
    ours.socket.close();
    ours.socket.close();
    expect(await send(ours, 'late', PEER)).toBe('ERR_SOCKET_CLOSED');
  });
});

describe('opening', () => {
  test('fails where somebody has the port, one of ours as well', async () => {
    await open();
    await expect(open()).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await plain({ address: '0.0.0.0', port: LOCAL.port + 5 });
    await expect(open({ ...LOCAL, port: LOCAL.port + 5 })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  test('fails where the address does not exist, and leaves nothing behind', async () => {
    await expect(open({ address: '192.0.2.1', port: LOCAL.port })).rejects.toMatchObject({ code: 'EADDRNOTAVAIL' });
    await expect(open(LOCAL, { address: 'localhost', port: LOCAL.port })).rejects.toThrow(
      '"localhost" is not an IP address',
    );
    await open();
  });

  test('a hundred times leaves the port free', async () => {
    for (let i = 0; i < 100; i++) (await open()).socket.close();
    await plain(LOCAL);
  });
});

test('what waits is read before the task runs, though the loop was blocked', async () => {
  const ours = await open();
  const peer = await plain(PEER);
  for (let i = 0; i < 100; i++) peer.send(`${i}`, LOCAL.port, LOCAL.address);
  await eventually(() => ours.got.length === 100, 'the first hundred');
  const { promise, resolve } = Promise.withResolvers<number>();
  setTimeout(() => {
    for (let i = 0; i < 100; i++) peer.send(`${i}`, LOCAL.port, LOCAL.address);
    const endMs = performance.now() + 50;
    while (performance.now() < endMs);
    sockets.afterBacklog(() => resolve(ours.got.length));
  }, 0);
  expect(await promise).toBe(200);
});
