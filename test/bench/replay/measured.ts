/** What one process of `replay-process.ts` tells. */
export type Measured = {
  readonly events: number;
  readonly cpuMs: number;
  readonly wallMs: number;
  readonly maxRssBytes: number;
  /** The same once {@link EARLY_EVENTS} had gone by; 0 if there were fewer. */
  readonly earlyRssBytes: number;
};

/** By then caches are full and code is compiled. */
export const EARLY_EVENTS = 400_000;
export const BATCH = 1_000;
