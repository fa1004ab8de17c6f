import { BlockList, isIP } from 'node:net';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The proxy by which the environment wants a server to be reached, by the rules of Go's clients, kubectl among them:
 * HTTPS_PROXY or HTTP_PROXY by the server's scheme, unless NO_PROXY names the server, as a host, a domain, an address or
 * a CIDR block, each with or without a port; never for loopback.
 *
 * @returns a URL, or `undefined` for the direct way
 * @throws Error that names the variable if its value is no URL
 * @see https://pkg.go.dev/golang.org/x/net/http/httpproxy
 */
export function proxyFromEnvironment(server: string, environment: Environment): string | undefined {
  const url = new URL(server);
  const variable = url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const proxy = valueIn(environment, variable);
  if (proxy === undefined || isLoopback(url) || isExempt(url, valueIn(environment, 'NO_PROXY') ?? '')) return undefined;
  const withScheme = proxy.includes('://') ? proxy : `http://${proxy}`;
  if (!URL.canParse(withScheme)) throw new Error(`${variable} is no URL, want http://HOST:PORT`); // its value may hold a password
  return withScheme;
}

function valueIn(environment: Environment, variable: string): string | undefined {
  return environment[variable] || environment[variable.toLowerCase()] || undefined;
}

function isLoopback(url: URL): boolean {
  const host = hostOf(url);
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function isExempt(url: URL, noProxy: string): boolean {
  const host = hostOf(url);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return noProxy
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .filter((entry) => entry !== '')
    .some((entry) => entry === '*' || matches(entry, host, port));
}

function matches(entry: string, host: string, port: string): boolean {
  if (entry.includes('/')) return isIP(host) !== 0 && isInBlock(host, entry);
  const [, name = entry, onlyPort] = /^(.*[^:]|\[.*]):(\d+)$/.exec(isIP(entry) === 6 ? '' : entry) ?? [];
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const bare = name.replace(/^\[|]$/g, '').replace(/^\*(?=\.)/, '');
  if (bare.startsWith('.')) return host.endsWith(bare);
  return host === bare || (isIP(bare) === 0 && host.endsWith(`.${bare}`));
}

function isInBlock(address: string, block: string): boolean {
  const [network = '', prefix = ''] = block.split('/');
  const family = isIP(network) === 6 ? 'ipv6' : 'ipv4';
  const blocks = new BlockList();
  try {
    blocks.addSubnet(network, Number(prefix), family);
  } catch {
    return false; // not a block: as Go does, it is passed over
  }
  return blocks.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

function hostOf({ hostname }: URL): string {
  return hostname.toLowerCase().replace(/^\[|]$/g, '');
}
