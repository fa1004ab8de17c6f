import type { Clock, Timer } from '../ports/clock.ts';

/** Bounds one attempt. Most events need no call, so nothing is armed before the signal is asked for. */
export function attemptTimer(
  clock: Clock,
  timeoutMs: number,
  parent: AbortSignal,
): Disposable & { readonly signal: () => AbortSignal } {
  let controller: AbortController | undefined;
  let timer: Timer | undefined;
  const onParentAbort = () => controller?.abort(parent.reason);
  return {
    signal() {
      if (controller !== undefined) return controller.signal;
      controller = new AbortController();
      if (parent.aborted) controller.abort(parent.reason);
      parent.addEventListener('abort', onParentAbort, { once: true });
      timer = clock.after(timeoutMs, () => controller?.abort(new Error(`attempt took longer than ${timeoutMs} ms`)));
      return controller.signal;
    },
    [Symbol.dispose]() {
      timer?.cancel();
      parent.removeEventListener('abort', onParentAbort);
    },
  };
}
