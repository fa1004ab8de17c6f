import type { Need } from '../support/real-parts.ts';

/** A case of public reports in its full length; `npm run soak -- --case NAME`. */
export type LongCase = {
  /** `C15`. */
  readonly name: string;
  /** What must hold, in a sentence. */
  readonly title: string;
  readonly needs: readonly Need[];
  /** How long it takes unless `--duration` says otherwise. */
  readonly durationMs: number;
  /** @returns what does not hold, each as a line */
  readonly run: (context: SoakContext) => Promise<readonly string[]>;
};

export type SoakContext = {
  readonly durationMs: number;
  /** Tells how it goes. */
  readonly say: (line: string) => void;
  /** Aborts when somebody wants it to end. */
  readonly signal: AbortSignal;
};

export const LAB_NEEDS: readonly Need[] = [
  ...(['root', 'netns', 'tun', 'wireguard-go', 'nft', 'nats-server', 'etcd', 'kube-apiserver'] as const),
];
