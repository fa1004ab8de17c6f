import {
  derivedTunnel,
  endpointOf,
  MAX_TUNNELS,
  type TunnelAddresses,
  type TunnelEndpoint,
} from '../domain/tunnel-interface.ts';
import type { OptionsOf } from './command-table.ts';
import { UsageError } from './errors.ts';

type TunnelFlags = Pick<OptionsOf<'gateway'>, 'numInterfaces' | 'mode' | 'tunnels' | 'pingPort'>;

/**
 * The tunnels of a gateway: those of `--tunnel`, or as many derived ones as `--num-interfaces` says.
 *
 * @throws UsageError if the flags contradict each other, or two tunnels are the same
 */
export function tunnelsFromOptions(flags: TunnelFlags): readonly TunnelEndpoint[] {
  const { numInterfaces, mode, tunnels, pingPort } = flags;
  if (tunnels === undefined) {
    return Array.from({ length: numInterfaces }, (_, index) => endpointOf(derivedTunnel(index, mode), pingPort));
  }
  const count = tunnels.length;
  if (count > MAX_TUNNELS) throw new UsageError(`--tunnel: ${count} are given, want at most ${MAX_TUNNELS}`);
  if (numInterfaces !== 1 && numInterfaces !== count) {
    throw new UsageError(`--num-interfaces ${numInterfaces}: ${count} --tunnel are given; give one for each, or none`);
  }
  for (const key of ['interfaceId', 'local'] as const) refuseTwins(tunnels, key);
  return tunnels.map((tunnel) => endpointOf(tunnel, pingPort));
}

/** Interfaces name status entries, and local addresses sockets: both are unique. */
function refuseTwins(tunnels: readonly TunnelAddresses[], key: 'interfaceId' | 'local'): void {
  const values = tunnels.map((tunnel) => tunnel[key]);
  const twin = values.find((value, index) => values.indexOf(value) !== index);
  if (twin === undefined) return;
  const what = key === 'local' ? 'local address' : 'interface';
  throw new UsageError(`--tunnel: the ${what} ${twin} is given twice`);
}
