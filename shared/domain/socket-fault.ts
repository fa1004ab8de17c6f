/** What people can do about an error of a tunnel's socket, by its system code. */
const HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE:
    "somebody else has the ping port: does the Go gateway's own keepalive still run? --enable-connection-controller=false turns it off",
  EADDRNOTAVAIL: 'the address is not there: the WireGuard interface is down or not yet created',
  EACCES: 'a route forbids it: look for prohibit routes (ip route), or the port needs a privilege',
  EPERM: 'a firewall drops it: look at nft list ruleset',
  ENETUNREACH: 'no route to the peer: look at ip route',
  EHOSTUNREACH: 'no route to the peer: look at ip route',
  ECONNREFUSED: 'the peer is there, but nothing listens on its ping port',
  ENOBUFS: 'the queue of the interface is full',
  EDESTADDRREQ: 'WireGuard knows no endpoint of the peer yet',
  ENOKEY: 'WireGuard has no key for the peer: it is not configured, or its allowed IPs lack the address',
};

export function hintFor(code: string): string {
  return HINTS[code] ?? 'an error that the gateway retries; see errno(3)';
}

/** Codes of a send that say something of the way to the peer, and nothing against the socket. */
const OF_THE_PATH: ReadonlySet<string> = new Set([
  ...['EPERM', 'EACCES', 'ECONNREFUSED', 'ENOBUFS', 'EAGAIN', 'ENOMEM', 'EMSGSIZE'],
  ...['ENETUNREACH', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETDOWN', 'ENOKEY'],
]);

/** Whether another socket would do better: the address is gone, or the socket is broken. */
export function wantsNewSocket(code: string): boolean {
  return !OF_THE_PATH.has(code);
}
