import type { NatsOptions } from '../adapters/nats-options.ts';
import { type BusUser, busUserName, inboxPrefixOf } from '../domain/bus-user.ts';
import type { OptionsOf } from './command-table.ts';
import { UsageError } from './errors.ts';

type NatsFlags = Pick<
  OptionsOf<'setup'>,
  | 'natsServers'
  | 'natsCredentialsFile'
  | 'natsUser'
  | 'natsPasswordFile'
  | 'natsCaFile'
  | 'natsCertificateFile'
  | 'natsKeyFile'
>;

/**
 * @param user - which part of the system this process is: its name in the server's monitoring, and where its answers come
 * @throws UsageError where flags need each other
 */
export function natsFromOptions(flags: NatsFlags, user: BusUser): NatsOptions {
  const { natsCredentialsFile, natsUser, natsPasswordFile, natsCaFile, natsCertificateFile, natsKeyFile } = flags;
  if ((natsCertificateFile === undefined) !== (natsKeyFile === undefined)) {
    throw new UsageError('--nats-cert and --nats-key: one needs the other');
  }
  if ((natsUser === undefined) !== (natsPasswordFile === undefined)) {
    throw new UsageError('--nats-user and --nats-password-file: one needs the other');
  }
  if (natsUser !== undefined && natsCredentialsFile !== undefined) {
    throw new UsageError('--nats-user and --nats-credentials: give one or the other');
  }
  const tls = {
    ...(natsCaFile !== undefined && { caFile: natsCaFile }),
    ...(natsCertificateFile !== undefined && { certFile: natsCertificateFile }),
    ...(natsKeyFile !== undefined && { keyFile: natsKeyFile }),
  };
  return {
    servers: flags.natsServers,
    name: `wg-keepalive ${busUserName(user)}`,
    inboxPrefix: inboxPrefixOf(user),
    ...(natsCredentialsFile !== undefined && { credsFile: natsCredentialsFile }),
    ...(natsUser !== undefined && { user: natsUser }),
    ...(natsPasswordFile !== undefined && { passwordFile: natsPasswordFile }),
    ...(Object.keys(tls).length > 0 && { tls }),
  };
}
