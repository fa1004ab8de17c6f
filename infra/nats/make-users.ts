/**
 * `node infra/nats/make-users.ts DIR [NAMESPACE…]`: makes the NKeys of all users, those of the gateways' namespaces
 * included, and writes what the server, Kubernetes and people need of them. Keys that DIR holds already stay as they are;
 * to rotate one, remove its seed first.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { nkeys } from 'nats';
import { CATALOG } from '../../functions/catalog.ts';
import { type BusUser, busUserName } from '../../shared/domain/bus-user.ts';
import { type KnownUser, renderAccounts } from './server-accounts.ts';

const USAGE = `usage: node infra/nats/make-users.ts DIR [NAMESPACE…]

  DIR        gets users/<name>.nk, one NKey seed a user (secret), and accounts.conf for nats-server (not secret)
  NAMESPACE  of Kubernetes, with gateways in it: each gets a user of its own
`;

/** All users of a cluster with gateways in these namespaces. */
export function usersOf(gatewayNamespaces: readonly string[]): readonly BusUser[] {
  return [
    { role: 'setup' },
    ...[...CATALOG.map(({ manifest }) => manifest.name), 'all'].map((name) => ({ role: 'function', name }) as const),
    { role: 'replay' },
    { role: 'viewer' },
    { role: 'page' },
    { role: 'deadletters' },
    ...gatewayNamespaces.map((namespace) => ({ role: 'gateway', namespace }) as const),
  ];
}

/**
 * Makes the keys that are missing below `folder`, and `accounts.conf` of all of them.
 *
 * @returns every user with its public key, in the order given
 */
export async function makeUsers(folder: string, users: readonly BusUser[]): Promise<readonly KnownUser[]> {
  await mkdir(join(folder, 'users'), { recursive: true });
  const known: KnownUser[] = [];
  for (const user of users) known.push({ user, publicKey: await publicKeyOf(seedFileOf(folder, user)) });
  await writeFile(join(folder, 'accounts.conf'), renderAccounts(known));
  return known;
}

/** Where the seed of a user is kept. */
export function seedFileOf(folder: string, user: BusUser): string {
  return join(folder, 'users', `${busUserName(user)}.nk`);
}

async function publicKeyOf(seedFile: string): Promise<string> {
  const seed = await readFile(seedFile).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    const made = Buffer.from(nkeys.createUser().getSeed());
    await writeFile(seedFile, made, { mode: 0o600, flag: 'wx' });
    return made;
  });
  return nkeys.fromSeed(Buffer.from(seed.toString().trim())).getPublicKey();
}

if (import.meta.main) {
  const [folder, ...namespaces] = process.argv.slice(2);
  if (folder === undefined || folder.startsWith('-')) {
    process.stderr.write(USAGE);
    process.exitCode = 2;
  } else {
    const known = await makeUsers(folder, usersOf(namespaces));
    for (const { user, publicKey } of known) process.stdout.write(`${busUserName(user).padEnd(40)} ${publicKey}\n`);
  }
}
