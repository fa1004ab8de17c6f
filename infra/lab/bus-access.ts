import type { NatsOptions } from '../../shared/adapters/nats-options.ts';
import { type BusUser, busUserName, inboxPrefixOf } from '../../shared/domain/bus-user.ts';

/** A nats-server that knows the lab's parts one by one. */
export type NatsUsers = {
  /** What the server is started with. */
  readonly configFile: string;
  /** The file that holds a user's key, or what it is to be by the next connect. */
  readonly credentialsFileOf: (user: BusUser) => string;
};

/** How the parts of the lab get to NATS: each as its user, or, where the server knows none, as anybody. */
export class BusAccess {
  readonly #urls: readonly string[];
  readonly #users: NatsUsers | undefined;

  constructor(urls: readonly string[], users: NatsUsers | undefined) {
    this.#urls = urls;
    this.#users = users;
  }

  /** For a process. */
  flagsOf(user: BusUser): readonly string[] {
    const file = this.#users?.credentialsFileOf(user);
    return [`--nats-url=${this.#urls}`, ...(file === undefined ? [] : [`--nats-credentials=${file}`])];
  }

  /** For the lab itself. */
  optionsOf(user: BusUser): NatsOptions {
    const credsFile = this.#users?.credentialsFileOf(user);
    return {
      ...{ servers: this.#urls, name: `wg-keepalive lab ${busUserName(user)}`, inboxPrefix: inboxPrefixOf(user) },
      ...(credsFile !== undefined && { credsFile }),
    };
  }
}
