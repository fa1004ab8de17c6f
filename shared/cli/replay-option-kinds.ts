import { isIP } from 'node:net';
import type { ConnectionRef } from '../domain/connection.ts';
import { connectionKey } from '../domain/connection.ts';
import { type Bound, formatBound, parseBound } from '../domain/replay-window.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import type { Kind } from './option-kinds.ts';

/** Where a window begins or ends. */
export const bound: Kind<Bound> = {
  placeholder: 'T',
  want: 'a time (2026-01-02T03:04:05Z), a sequence (#1234), or a time before the last event (-15m)',
  parse: parseBound,
  format: (value) => formatBound(value, formatRfc3339Ms),
};

export const connectionRef: Kind<ConnectionRef> = {
  placeholder: 'NS/NAME',
  want: 'NAMESPACE/NAME of a Connection, such as liqo-tenant-rome/gw-rome',
  parse: (value) => {
    const [, namespace, name] = /^([^/\s]{1,253})\/([^/\s]{1,253})$/.exec(value) ?? [];
    return namespace === undefined || name === undefined ? undefined : { namespace, name };
  },
  format: connectionKey,
};

/** `Infinity` for `max`. */
export const speed: Kind<number> = {
  placeholder: 'max|N',
  want: 'max, or how many times as fast as it happened, from 0.01 to 100000',
  parse: (value) => {
    if (value === 'max') return Number.POSITIVE_INFINITY;
    const factor = /^\d+(\.\d+)?$/.test(value) ? Number(value) : Number.NaN;
    return factor >= 0.01 && factor <= 100_000 ? factor : undefined;
  },
  format: (value) => (Number.isFinite(value) ? String(value) : 'max'),
};

/** A flag of gateways or functions, and the value to judge a window by. */
export type SettingChange = { readonly flag: string; readonly value: string };

export const settingChange: Kind<SettingChange> = {
  placeholder: 'FLAG=VALUE',
  want: 'FLAG=VALUE, such as ping-loss-threshold=3',
  parse: (text) => {
    const [, flag, value] = /^(?:--)?([a-z-]+)=([^=\s]+)$/.exec(text) ?? [];
    return flag === undefined || value === undefined ? undefined : { flag, value };
  },
  format: ({ flag, value }) => `${flag}=${value}`,
};

/** Values of one flag, from the first to the last; `step` may be left out for whole numbers. */
export type SettingSweep = {
  readonly flag: string;
  readonly from: string;
  readonly to: string;
  readonly step?: string;
};

export const settingSweep: Kind<SettingSweep> = {
  placeholder: 'FLAG=A..B',
  want: 'FLAG=A..B or FLAG=A..B/STEP, such as ping-loss-threshold=2..10 or ping-interval=2s..10s/2s',
  parse: (text) => {
    const [, flag, from, to, step] = /^(?:--)?([a-z-]+)=([^=\s/]+?)\.\.([^=\s/]+?)(?:\/([^=\s/]+))?$/.exec(text) ?? [];
    if (flag === undefined || from === undefined || to === undefined) return undefined;
    return { flag, from, to, ...(step === undefined ? {} : { step }) };
  },
  format: ({ flag, from, to, step }) => `${flag}=${from}..${to}${step === undefined ? '' : `/${step}`}`,
};

export const ipAddress: Kind<string> = {
  placeholder: 'ADDRESS',
  want: 'an IP address',
  parse: (value) => (isIP(value) === 0 ? undefined : value),
  format: (value) => value,
};
