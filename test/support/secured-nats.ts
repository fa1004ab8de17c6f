import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type NatsConnection } from 'nats';
import { CATALOG } from '../../functions/catalog.ts';
import { makeUsers, seedFileOf } from '../../infra/nats/make-users.ts';
import { renderTls } from '../../infra/nats/server-accounts.ts';
import { launchNats, type NatsServer } from '../../infra/servers/launch-nats.ts';
import { connectionOptions, type NatsOptions } from '../../shared/adapters/nats-options.ts';
import { setupBus } from '../../shared/adapters/nats-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type BusUser, busUserName, inboxPrefixOf } from '../../shared/domain/bus-user.ts';
import { STREAMS } from '../../shared/domain/topology.ts';
import { makeCertificate } from './certificate.ts';
import { silentLogger } from './silent-logger.ts';

const MAX_BYTES = 16 * 1024 * 1024;

/** A nats-server with TLS that lets in these users only, each with its permissions. */
export class SecuredNats implements AsyncDisposable {
  readonly server: NatsServer;
  /** As `make-users.ts` leaves it: seeds and `accounts.conf`, which the server includes. */
  readonly folder: string;
  readonly caFile: string;
  readonly #connections: NatsConnection[] = [];

  private constructor(server: NatsServer, folder: string, caFile: string) {
    this.server = server;
    this.folder = folder;
    this.caFile = caFile;
  }

  /** @param options - `setUp: false` leaves it without streams */
  static async start(users: readonly BusUser[], { setUp = true } = {}): Promise<SecuredNats> {
    const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-secured-nats-'));
    await makeUsers(folder, users);
    const { caFile, ...certificate } = await makeCertificate(folder);
    const base = await readFile(new URL('../../infra/nats/server.conf', import.meta.url), 'utf8');
    const configFile = join(folder, 'server.conf');
    const rest = 'server_name: $NATS_SERVER_NAME\ninclude "accounts.conf"\n';
    await writeFile(configFile, `${base}\n${renderTls(certificate)}${rest}`);
    const nats = new SecuredNats(await launchNats({ configFile }), folder, caFile);
    if (setUp) await nats.#setUp();
    return nats;
  }

  optionsOf(user: BusUser): NatsOptions {
    return {
      servers: [this.server.url],
      name: busUserName(user),
      inboxPrefix: inboxPrefixOf(user),
      credsFile: seedFileOf(this.folder, user),
      tls: { caFile: this.caFile },
    };
  }

  /** The client without our adapters: it may try what they never would. */
  async connect(user: BusUser): Promise<NatsConnection> {
    const connection = await connect({ ...connectionOptions(this.optionsOf(user)), maxReconnectAttempts: 0 });
    this.#connections.push(connection);
    return connection;
  }

  /** Makes the server read its files again, as `nats-server --signal reload` does. */
  reload(): Promise<void> {
    return this.server.kill('SIGHUP');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
    await this.server[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #setUp(): Promise<void> {
    await setupBus(await this.connect({ role: 'setup' }), {
      consumers: CATALOG.flatMap(({ manifest }) => ('consumers' in manifest ? manifest.consumers : [])),
      maxBytes: Object.fromEntries(STREAMS.map(({ name }) => [name, MAX_BYTES])),
      clock: systemClock,
      log: silentLogger,
    });
  }
}
