import type { ConnectionValue } from './connection.ts';
import type { OutcomeName } from './decision.ts';

/** What the page is told: plain JSON, the same on both sides. Times are Unix milliseconds of the server's messages. */

export type PageTunnel = {
  readonly interfaceId: string;
  readonly value: ConnectionValue;
  /** As the Connection has it, `1.234ms`. */
  readonly latency?: string;
  readonly reason?: string;
  readonly message?: string;
  /** RFC 3339. */
  readonly since?: string;
};

export type PageConnection = {
  /** `NAMESPACE/NAME` */
  readonly key: string;
  readonly remoteClusterId?: string;
  readonly type?: 'Server' | 'Client';
  readonly value?: ConnectionValue;
  readonly latency?: string;
  /** The Ready condition in words. */
  readonly reason?: string;
  readonly message?: string;
  /** All that it lists, in its order; absent where that has not changed. */
  readonly interfaces?: readonly string[];
  /** Those that have changed. */
  readonly tunnels: readonly PageTunnel[];
};

/**
 * One second of a tunnel, as its gateway saw it: Unix second, PINGs that ended then, how many of them were lost, mean
 * round trip in µs (`null` where no PONG came).
 */
export type PageBin = readonly [second: number, pings: number, lost: number, meanRttUs: number | null];

/** A value of the status and when it began; it lasts until the next one begins. */
export type PageSegment = readonly [fromUnixMs: number, value: ConnectionValue];

export type PageSeries = {
  /** {@link PageConnection.key} */
  readonly connection: string;
  readonly interfaceId: string;
  /** The tunnel is another than the page may know by this name: what it has of that goes. */
  readonly isNew?: true;
  /** In order; the first one replaces the page's own bin of the same second. */
  readonly bins: readonly PageBin[];
  /** All that are kept; absent where nothing has changed. */
  readonly segments?: readonly PageSegment[];
};

export type PageDecision = {
  readonly atUnixMs: number;
  readonly function: string;
  readonly connection: string;
  readonly interfaceId?: string;
  readonly outcome: OutcomeName;
  readonly reason: string;
  /** `Connected → Error`, or the one value that stayed. */
  readonly change?: string;
  /** Latency written, if one was. */
  readonly latency?: string;
  /** Events before it that needed no write. */
  readonly throttled: number;
};

/** As it tells itself. */
export type PageReplica = {
  readonly name: string;
  /** Events that it handled, a second. */
  readonly perSecond: number;
  /** How old the oldest of them was when it was handled. */
  readonly lagMs?: number;
};

export type PageFunction = {
  readonly name: string;
  /** Events handed out since the last look, a second. */
  readonly perSecond: number;
  /** Events that wait in its consumers. */
  readonly waiting: number;
  /** Handed out and not yet settled. */
  readonly inWork: number;
  /** Those that are there, by name. */
  readonly replicas: readonly PageReplica[];
};

/** Of a part that the page knows things from: while it is not ok, what it told may be old. */
export type PageHealth = { readonly name: string; readonly ok: boolean; readonly reason?: string };

/** What the lab does to a tunnel just now. */
export type PageImpairment = {
  readonly interfaceId: string;
  readonly cut: boolean;
  readonly delayMs: number;
  /** 0 … 1 */
  readonly lossRate: number;
};

export type PageLab = {
  readonly tunnels: number;
  /** Those that differ from a healthy tunnel. */
  readonly impairments: readonly PageImpairment[];
  readonly functions: readonly { readonly name: string; readonly replicas: number }[];
};

/** All that has changed since a revision; what is absent has not. */
export type PagePatch = {
  readonly revision: number;
  /** The page forgets all it knew: everything is in this patch. */
  readonly reset?: true;
  readonly connections?: readonly PageConnection[];
  /** Keys of Connections that are no more. */
  readonly gone?: readonly string[];
  readonly series?: readonly PageSeries[];
  /** New ones, oldest first. */
  readonly decisions?: readonly PageDecision[];
  readonly functions?: readonly PageFunction[];
  readonly deadLetters?: number;
  readonly health?: readonly PageHealth[];
  readonly lab?: PageLab;
};
