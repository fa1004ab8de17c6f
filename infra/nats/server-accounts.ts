import type { BusUser } from '../../shared/domain/bus-user.ts';
import { busUserName } from '../../shared/domain/bus-user.ts';
import { permissionsOf } from './permissions.ts';

/** A user by the public half of its NKey: what the server is told holds no secret. */
export type KnownUser = { readonly user: BusUser; readonly publicKey: string };

/** PEM files of the server; `caFile` makes it ask clients for certificates that this authority signed. */
export type ServerTls = { readonly certFile: string; readonly keyFile: string; readonly caFile?: string };

/**
 * The part of nats-server's configuration that says who may do what: one account, with JetStream of its own, for one
 * cluster. Nobody else is let in. Included by, or pasted below, `server.conf`.
 *
 * @param account - `wg-keepalive-<cluster>` where several clusters share a server
 */
export function renderAccounts(users: readonly KnownUser[], account = 'wg-keepalive'): string {
  return [
    '# Made from infra/nats/permissions.ts: change that table, not this file.',
    'accounts: {',
    `  ${text(account)}: {`,
    '    jetstream: enabled',
    '    users: [',
    ...users.map(renderUser),
    '    ]',
    '  }',
    '}',
    '',
  ].join('\n');
}

/** The `tls` block: nobody connects without it. */
export function renderTls({ certFile, keyFile, caFile }: ServerTls): string {
  const verify = caFile === undefined ? '' : `, ca_file: ${text(caFile)}, verify: true`;
  return `tls: { cert_file: ${text(certFile)}, key_file: ${text(keyFile)}${verify} }\n`;
}

function renderUser({ user, publicKey }: KnownUser): string {
  const { publish, subscribe } = permissionsOf(user);
  return [
    `      # ${busUserName(user)}`,
    `      { nkey: ${publicKey}, permissions: {`,
    `        publish: { allow: [${publish.map((subject) => `\n          ${text(subject)}`).join('')}\n        ] }`,
    `        subscribe: { allow: [${subscribe.map(text).join(', ')}] }`,
    '      } }',
  ].join('\n');
}

/** In quotes, where neither `$` nor `>` means anything to the server's parser. */
function text(value: string): string {
  return JSON.stringify(value);
}
