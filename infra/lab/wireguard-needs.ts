import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { StartError } from '../../shared/cli/errors.ts';
import { findOnPath } from '../servers/process.ts';

const PACKAGES: Readonly<Record<string, string>> = {
  'wireguard-go': 'wireguard-go',
  wg: 'wireguard-tools',
  ip: 'iproute2',
  nft: 'nftables',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  setpriv: 'util-linux',
};

/** @throws StartError that names everything the real network lacks on this machine, and how to get it */
export async function requireWireguard(): Promise<void> {
  const lacks: string[] = [];
  if (process.platform !== 'linux') lacks.push('Linux');
  if (process.getuid?.() !== 0) lacks.push('root (sudo -E)');
  for (const [command, debianPackage] of Object.entries(PACKAGES)) {
    if ((await findOnPath(command)) === undefined) lacks.push(`${command} on PATH (apt-get install ${debianPackage})`);
  }
  const device = '/dev/net/tun';
  await access(device, constants.R_OK | constants.W_OK).catch(() =>
    lacks.push(`${device} (modprobe tun; in a container: --device ${device} --cap-add NET_ADMIN)`),
  );
  if (lacks.length > 0) throw new StartError(`a network of WireGuard tunnels needs ${lacks.join(', ')}`);
}
