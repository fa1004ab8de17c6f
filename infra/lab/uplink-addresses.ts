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

let runs = 0;

/** Names and addresses, a /30 each, that no other run on this machine has: they follow from this process's id. */
export function reserveUplinks(): { readonly server: Uplink; readonly client: Uplink } {
  const used = new Set(Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address)));
  const run = `${process.pid.toString(36)}${(runs++).toString(36)}`;
  let subnet = (2 * process.pid) % SUBNETS;
  const next = (side: string): Uplink => {
    for (let tried = 0; tried < SUBNETS; tried++) {
      const [rootAddress, address] = [addressIn(subnet, 1), addressIn(subnet, 2)];
      subnet = (subnet + 1) % SUBNETS;
      if (used.has(rootAddress)) continue;
      return { rootInterface: `wgk${run}${side}`, rootAddress, address };
    }
    throw new Error('198.18.0.0/15 has no free /30 for the lab');
  };
  return { server: next('s'), client: next('c') };
}

function addressIn(subnet: number, host: number): string {
  const offset = 4 * subnet + host;
  return [FIRST[0], FIRST[1] + (offset >> 16), (offset >> 8) & 255, offset & 255].join('.');
}
