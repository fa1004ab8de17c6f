import { encodeToken } from './subject-token.ts';

/**
 * Who talks to the bus. Each has a user of its own that may do what it needs and nothing else; a gateway's is its
 * namespace's, a function's is its own, `all` is that of a process that runs several functions.
 */
export type BusUser =
  | { readonly role: 'gateway'; readonly namespace: string }
  | { readonly role: 'function'; readonly name: string }
  | { readonly role: 'setup' | 'replay' | 'viewer' | 'page' | 'deadletters' };

/** The user of a process that runs these functions. */
export function functionUser(names: readonly string[]): BusUser {
  const [name = 'all', ...others] = names;
  return { role: 'function', name: others.length === 0 ? name : 'all' };
}

/** As files, Secrets and subjects name it: `setup`, `function.tunnel-status`, `gateway.liqo-tenant-a`. */
export function busUserName(user: BusUser): string {
  switch (user.role) {
    case 'gateway':
      return `gateway.${encodeToken(user.namespace)}`;
    case 'function':
      return `function.${encodeToken(user.name)}`;
    default:
      return user.role;
  }
}

/** Where answers to this user come: nobody else may listen there. */
export function inboxPrefixOf(user: BusUser): string {
  return `_INBOX.${busUserName(user)}`;
}
