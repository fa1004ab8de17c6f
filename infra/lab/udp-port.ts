import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import type { Endpoint } from '../../shared/ports/datagram-socket.ts';

/**
 * Below the kernel's ephemeral range (32768 and up): between the look here and the bind by whom it is meant for,
 * no socket that asks for port 0 is given it.
 */
const FIRST_PORT = 15_000;
const LAST_PORT = 32_000;
const ATTEMPTS = 100;

const handedOut = new Set<number>();

/**
 * Picks a UDP port that nobody uses at this moment, and that this process has not handed out already.
 *
 * @throws Error if the address is none of this machine, or no free port is found.
 */
export async function reserveUdpPort(address: string): Promise<Endpoint> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = randomInt(FIRST_PORT, LAST_PORT);
    if (handedOut.has(port) || !(await isFree(address, port))) continue;
    handedOut.add(port);
    return { address, port };
  }
  throw new Error(`no free UDP port on ${address} in ${ATTEMPTS} tries from ${FIRST_PORT} to ${LAST_PORT}`);
}

/** Lets {@link reserveUdpPort} hand the port out again. */
export function releaseUdpPort({ port }: Endpoint): void {
  handedOut.delete(port);
}

function isFree(address: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4');
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.close();
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(new Error(`cannot bind UDP on ${address}: ${error.message}`, { cause: error }));
    });
    socket.bind({ address, port, exclusive: true }, () => socket.close(() => resolve(true)));
  });
}
