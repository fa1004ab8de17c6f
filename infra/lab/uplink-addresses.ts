import { networkInterfaces } from 'node:os';

/** A cable from a namespace to the root namespace. */
export type Uplink = {
  /** Name of its end in the root namespace. */
  readonly rootInterface: string;
  readonly rootAddress: string;
  /** Of its end in the namespace, which is called `uplink`. */
  readonly address: string;
};

/** 198.18.0.0/15 is set aside for tests of networks: no machine should have it in use. @see RFC 2544 */
const FIRST = [198, 18] as const;
const SUBNETS = 2 ** 15;

/**
 * All that this machine may have free, a /30 each, in an order that follows from this process's id. The name follows
 * from the addresses: the kernel gives it to one only, so who has the interface has the addresses, too.
 */
export function* uplinkCandidates(): Generator<Uplink> {
  const used = new Set(Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address)));
  for (let tried = 0; tried < SUBNETS; tried++) {
    const subnet = (2 * process.pid + tried) % SUBNETS;
    const [rootAddress, address] = [addressIn(subnet, 1), addressIn(subnet, 2)];
    if (!used.has(rootAddress)) yield { rootInterface: `wgk-uplink${subnet}`, rootAddress, address };
  }
}

function addressIn(subnet: number, host: number): string {
  const offset = 4 * subnet + host;
  return [FIRST[0], FIRST[1] + (offset >> 16), (offset >> 8) & 255, offset & 255].join('.');
}
