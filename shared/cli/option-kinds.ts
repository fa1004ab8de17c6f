import { isIPv4 } from 'node:net';
import { formatDuration, parseDuration } from '../domain/duration.ts';

/** How the value of an option is written, read and shown. */
export type Kind<Value> = {
  /** Stands for the value in `--help`: `D`, `N`, `server|client`. */
  readonly placeholder: string;
  /** Completes "want …". */
  readonly want: string;
  /** `undefined` for what it cannot read. */
  readonly parse: (text: string) => Value | undefined;
  /** The value as a flag would be written. */
  readonly format: (value: Value) => string;
};

const MAX_PORT = 65_535;

export const boolean: Kind<boolean> = {
  placeholder: 'true|false',
  want: 'true or false',
  parse: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  format: String,
};

/** Any text but the empty one. */
export function text(placeholder: string, want = 'some text'): Kind<string> {
  return { placeholder, want, parse: (value) => (value === '' ? undefined : value), format: (value) => value };
}

/** The name of a Kubernetes object: an RFC 1123 subdomain. */
export const objectName: Kind<string> = {
  placeholder: 'NAME',
  want: 'a Kubernetes name: small letters, digits, - and ., at most 253',
  parse: (value) =>
    value.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(value)
      ? value
      : undefined,
  format: (value) => value,
};

/** What the API takes as the value of a label. */
export const labelValue: Kind<string> = {
  placeholder: 'ID',
  want: 'a Kubernetes label value: letters, digits, -, _ and ., at most 63',
  parse: (value) =>
    value.length <= 63 && /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/.test(value) ? value : undefined,
  format: (value) => value,
};

export function integer(min: number, max = Number.MAX_SAFE_INTEGER): Kind<number> {
  return {
    placeholder: 'N',
    want: max === Number.MAX_SAFE_INTEGER ? `an integer of at least ${min}` : `an integer from ${min} to ${max}`,
    parse: (value) => {
      const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
      return number >= min && number <= max ? number : undefined;
    },
    format: String,
  };
}

/** Longer timers overflow: Node would fire them at once. */
const LONGEST_MS = 24 * 3_600_000;

/** A Go duration; the value is in milliseconds. */
export function duration(minMs: number, maxMs = LONGEST_MS): Kind<number> {
  return {
    placeholder: 'D',
    want: `a duration such as 50ms, 2s or 1m30s, from ${formatDuration(minMs)} to ${formatDuration(maxMs)}`,
    parse: (value) => {
      const ms = parseDuration(value);
      return ms !== undefined && ms >= minMs && ms <= maxMs ? ms : undefined;
    },
    format: formatDuration,
  };
}

const UNIT_BYTES = { Ti: 2 ** 40, Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10 } as const;
const MOST_BYTES = 1_024 * UNIT_BYTES.Ti;

/** A quantity of bytes as Kubernetes writes it, in binary units or plain. */
export function bytes(min: number, max = MOST_BYTES): Kind<number> {
  return {
    placeholder: 'BYTES',
    want: `a number of bytes such as 512Mi or 2Gi (Ki, Mi, Gi, Ti), from ${formatBytes(min)} to ${formatBytes(max)}`,
    parse: (value) => {
      const [, digits, unit] = /^(\d+)(Ki|Mi|Gi|Ti)?$/.exec(value) ?? [];
      const number = Number(digits) * (unit === undefined ? 1 : UNIT_BYTES[unit as keyof typeof UNIT_BYTES]);
      return number >= min && number <= max ? number : undefined;
    },
    format: formatBytes,
  };
}

function formatBytes(value: number): string {
  const [unit, size] = Object.entries(UNIT_BYTES).find(([, size]) => value % size === 0) ?? ['', 1];
  return `${value / size}${unit}`;
}

export function choice<const Choice extends string>(...choices: readonly Choice[]): Kind<Choice> {
  return {
    placeholder: choices.join('|'),
    want: `one of ${choices.join(', ')}`,
    parse: (value) => choices.find((one) => one === value),
    format: (value) => value,
  };
}

export type BindAddress = {
  /** Absent: every address of the machine. */
  readonly host?: string;
  /** 0: any free port. */
  readonly port: number;
};

/** `:8089`, `127.0.0.1:8089`, `[::1]:8089`. */
export const bindAddress: Kind<BindAddress> = {
  placeholder: 'HOST:PORT',
  want: 'HOST:PORT or :PORT, the port from 0 (any free one) to 65535',
  parse: (value) => {
    const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d+)$/.exec(value) ?? [];
    const port = Number(digits);
    if (digits === undefined || port > MAX_PORT) return undefined;
    const host = bracketed ?? plain;
    return host ? { host, port } : { port };
  },
  format: ({ host = '', port }) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`),
};

/** Servers of one NATS cluster, separated by commas; the value keeps the order. */
export const natsServers: Kind<readonly string[]> = {
  placeholder: 'URL[,URL…]',
  want: 'nats://HOST[:PORT] or tls://HOST[:PORT], several separated by commas, credentials by --nats-credentials',
  parse: (value) => {
    const servers = value.split(',').map((server) => server.trim());
    return servers.every(isNatsUrl) ? servers : undefined;
  },
  format: (servers) => servers.join(','),
};

/** Credentials in the URL are refused: a URL ends up in process lists and logs. */
function isNatsUrl(server: string): boolean {
  if (!URL.canParse(server)) return false;
  const { protocol, hostname, username, password } = new URL(server);
  return ['nats:', 'tls:'].includes(protocol) && hostname !== '' && username === '' && password === '';
}

/** What Linux takes for the name of an interface, in printable ASCII, as it becomes a field manager, too. */
const INTERFACE_NAME = /^(?!\.{1,2}$)[!-~]{1,15}$/;

/** One tunnel whose addresses are given instead of derived. */
export type TunnelOption = { readonly interfaceId: string; readonly local: string; readonly peer: string };

export const tunnel: Kind<TunnelOption> = {
  placeholder: 'IFACE=LOCAL,PEER',
  want: 'IFACE=LOCAL,PEER with the name of a Linux interface (1 to 15 characters, no / or :) and two different IPv4 addresses, such as liqo-tunnel=127.0.1.1,127.0.1.2',
  parse: (value) => {
    const [, interfaceId, local, peer] = /^([^=,/:]+)=([^,]+),([^,]+)$/.exec(value) ?? [];
    if (interfaceId === undefined || local === undefined || peer === undefined) return undefined;
    if (!INTERFACE_NAME.test(interfaceId)) return undefined;
    return isIPv4(local) && isIPv4(peer) && local !== peer ? { interfaceId, local, peer } : undefined;
  },
  format: ({ interfaceId, local, peer }) => `${interfaceId}=${local},${peer}`,
};

/** May be given again and again; in an environment variable the values stand apart by spaces. */
export function list<Value>(kind: Kind<Value>): Kind<readonly Value[]> & { readonly repeatable: true } {
  return {
    ...kind,
    repeatable: true,
    parse: (value) => {
      const values = value.split(/\s+/).filter(Boolean).map(kind.parse);
      return values.includes(undefined) || values.length === 0 ? undefined : (values as readonly Value[]);
    },
    format: (values) => values.map(kind.format).join(' '),
  };
}
