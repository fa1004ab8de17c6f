import { readFileSync } from 'node:fs';
import type { Authenticator, NodeConnectionOptions } from 'nats';
import { credsAuthenticator, nkeyAuthenticator, usernamePasswordAuthenticator } from 'nats';

/** How to reach NATS and as whom. Files are read again at every connect, so that rotated credentials take over. */
export type NatsOptions = {
  /** `nats://host:port` or `tls://host:port`, one or more servers of the cluster. */
  readonly servers: readonly string[];
  /** Shown by the server's monitoring: which process this is. */
  readonly name: string;
  /** Prefix of the subjects that answers come to, where the user may subscribe to no other. @defaultValue `_INBOX` */
  readonly inboxPrefix?: string;
  /** An NKey seed (`SU…`), or a `.creds` file (JWT and seed). */
  readonly credsFile?: string;
  readonly user?: string;
  readonly passwordFile?: string;
  /** Given even if empty, it demands TLS, as does a server's `tls://`. PEM files. */
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string };
};

/**
 * A dead server is noticed within pingInterval × (maxPingOut + 1). Coming back is the link's business: the client
 * gives up after some tries, and keeps some memory for every login that is refused until one succeeds.
 */
const RESILIENCE = {
  timeout: 2_000,
  pingInterval: 1_000,
  maxPingOut: 2,
  reconnect: false,
} satisfies NodeConnectionOptions;

/** The options in the client's words. */
export function connectionOptions({ servers, name, inboxPrefix, tls, ...login }: NatsOptions): NodeConnectionOptions {
  const authenticator = authenticatorOf(login);
  // The client itself takes `tls://` for a wish, and goes on in the clear where the server has no TLS.
  const demanded = tls ?? (servers.some((server) => server.startsWith('tls:')) ? {} : undefined);
  return {
    ...RESILIENCE,
    servers: [...servers],
    name,
    ...(inboxPrefix !== undefined && { inboxPrefix }),
    ...(authenticator && { authenticator }),
    ...(demanded && { tls: { ...demanded } }),
  };
}

function authenticatorOf({
  credsFile,
  user,
  passwordFile,
}: Pick<NatsOptions, 'credsFile' | 'user' | 'passwordFile'>): Authenticator | undefined {
  if (credsFile !== undefined) return fileAuthenticator(credsFile);
  if (user === undefined) return undefined;
  if (passwordFile === undefined) return usernamePasswordAuthenticator(user);
  const password = rereader(passwordFile);
  return usernamePasswordAuthenticator(user, () => Buffer.from(password()).toString('utf8').trim());
}

/** Which of the two it is may change from one connect to the next, as does what is in it. */
function fileAuthenticator(file: string): Authenticator {
  const read = rereader(file);
  return (nonce) => {
    const content = Buffer.from(read()).toString('utf8').trim();
    const isSeed = /^SU[A-Z2-7]+$/.test(content);
    return (isSeed ? nkeyAuthenticator : credsAuthenticator)(Buffer.from(content))(nonce);
  };
}

/** Reads the file at each call; while it cannot be read (a rotation in progress) the last content stays. */
function rereader(file: string): () => Uint8Array {
  let last: Uint8Array | undefined;
  return () => {
    try {
      last = readFileSync(file);
    } catch (error) {
      if (last === undefined) throw error;
    }
    return last;
  };
}
