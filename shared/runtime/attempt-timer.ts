import type { Clock, Timer } from '../ports/clock.ts';

export type AttemptTimer = Disposable & {
  /** Bounds the attempt that is under way; the first call begins it. */
  readonly signal: () => AbortSignal;
  /** Begins another attempt, with time of its own. */
  readonly next: () => AbortSignal;
};

/** Bounds the attempts at one event. Most events need no call, so nothing is armed before a signal is asked for. */
export function attemptTimer(clock: Clock, timeoutMs: number, parent: AbortSignal): AttemptTimer {
  let controller: AbortController | undefined;
  let timer: Timer | undefined;
  const onParentAbort = () => controller?.abort(parent.reason);

  function begin(): AbortSignal {
    if (controller === undefined) parent.addEventListener('abort', onParentAbort, { once: true });
    timer?.cancel();
    const attempt = new AbortController();
    controller = attempt;
    if (parent.aborted) attempt.abort(parent.reason);
    timer = clock.after(timeoutMs, () => attempt.abort(new Error(`attempt took longer than ${timeoutMs} ms`)));
    return attempt.signal;
  }

  return {
    signal: () => controller?.signal ?? begin(),
    next: begin,
    [Symbol.dispose]() {
      if (controller === undefined) return;
      timer?.cancel();
      parent.removeEventListener('abort', onParentAbort);
    },
  };
}
