/** Durations come from `monotonicMs`, labels from `unixMs`; neither is read any other way. */
export interface Clock {
  /** Milliseconds with a fraction, never set back, from an arbitrary origin. */
  monotonicMs(): number;
  /** Wall clock, Unix milliseconds: a label for people. */
  unixMs(): number;
  /** Runs `task` once, `delayMs` from now. The handle cancels it; cancelling twice is harmless. */
  after(delayMs: number, task: () => void): Timer;
  /** Resolves after `delayMs`, or rejects with the signal's reason when it aborts first. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
}

export interface Timer {
  cancel(): void;
}
