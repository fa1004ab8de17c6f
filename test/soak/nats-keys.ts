import { mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NatsUsers } from '../../infra/lab/bus-access.ts';
import { makeUsers, seedFileOf } from '../../infra/nats/make-users.ts';
import type { BusUser } from '../../shared/domain/bus-user.ts';

/**
 * The keys of NATS users, which others take the place of while everything runs: first at the server, then in the files
 * that users read, all at once by a link, as a kubelet updates a mounted Secret.
 */
export class NatsKeys implements NatsUsers, AsyncDisposable {
  /** Of the server, which refuses all keys but the newest as soon as it is told to reload. */
  readonly configFile: string;
  readonly #folder: string;
  readonly #users: readonly BusUser[];
  #generation = 0;

  private constructor(folder: string, users: readonly BusUser[]) {
    this.configFile = join(folder, 'server.conf');
    this.#folder = folder;
    this.#users = users;
  }

  static async create(users: readonly BusUser[]): Promise<NatsKeys> {
    const keys = new NatsKeys(await mkdtemp(join(tmpdir(), 'wg-keepalive-nats-keys-')), users);
    await keys.renew();
    await keys.handOut();
    return keys;
  }

  credentialsFileOf(user: BusUser): string {
    return seedFileOf(join(this.#folder, 'current'), user);
  }

  /** Makes new keys for all, which the server takes at its next reload; users still find the old ones. */
  async renew(): Promise<void> {
    const made = `keys-${++this.#generation}`;
    await makeUsers(join(this.#folder, made), this.#users);
    const base = await readFile(new URL('../../infra/nats/server.conf', import.meta.url), 'utf8');
    const own = `server_name: $NATS_SERVER_NAME\ninclude "${made}/accounts.conf"\n`;
    await writeFile(this.configFile, `${base}\n${own}`);
  }

  /** Lets users find the newest keys. */
  async handOut(): Promise<void> {
    const next = join(this.#folder, 'next');
    await symlink(`keys-${this.#generation}`, next);
    await rename(next, join(this.#folder, 'current'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}
