import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import { NotReadyError } from './process.ts';

/**
 * Ports of servers come from below the kernel's ephemeral range (32768 and up). A server that is down then keeps its port:
 * no outgoing connection is given that port meanwhile, nor can a client that keeps reconnecting to it connect to itself.
 * That is why port 0 is not used.
 */
const FIRST_PORT = 15_000;
const LAST_PORT = 32_000;
const PORT_ATTEMPTS = 5;

/**
 * Picks TCP ports that nobody listens on at this moment.
 *
 * @throws Error if the host is not an address of this machine.
 */
async function freePorts(count: number, host: string): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(FIRST_PORT, LAST_PORT);
    if (await isFree(port, host)) ports.add(port);
  }
  return [...ports];
}

/**
 * Runs `start` with free ports, and again with others if somebody was faster.
 *
 * @throws whatever `start` throws, a lost race for a port excepted.
 */
export async function onFreePorts<T>(
  count: number,
  host: string,
  start: (ports: readonly number[]) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePorts(count, host));
    } catch (error) {
      if (!(error instanceof NotReadyError && error.portInUse) || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(new Error(`cannot listen on ${host}: ${error.message}`, { cause: error }));
    });
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
