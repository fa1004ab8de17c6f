import { afterEach, describe, expect, it, vi } from 'vitest';
import { abortOnStopSignal, finishesWithin } from '../../shared/cli/shutdown.ts';
import type { Logger } from '../../shared/ports/telemetry.ts';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const before = new Map(SIGNALS.map((signal) => [signal, process.listeners(signal)]));
const log: Logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn(), child: () => log };

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  for (const signal of SIGNALS) {
    for (const listener of process.listeners(signal)) {
      if (!before.get(signal)?.includes(listener)) process.off(signal, listener);
    }
  }
});

describe('abortOnStopSignal', () => {
  it.each(SIGNALS)('aborts on the first %s and leaves the process alive', (signal) => {
    const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never);
    const stop = abortOnStopSignal(log);
    expect(stop.aborted).toBe(false);
    process.emit(signal, signal);
    expect(stop.aborted).toBe(true);
    expect(exit).not.toHaveBeenCalled();
  });

  it('ends the process with exit code 1 on the second, whichever it is', () => {
    const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never);
    abortOnStopSignal(log);
    process.emit('SIGTERM', 'SIGTERM');
    process.emit('SIGINT', 'SIGINT');
    expect(exit).toHaveBeenCalledExactlyOnceWith(1);
  });
});

describe('finishesWithin', () => {
  it('is true for what is done in time', async () => {
    expect(await finishesWithin(1_000, Promise.resolve())).toBe(true);
  });

  it('is false for what hangs, once the time is over', async () => {
    vi.useFakeTimers();
    const finished = finishesWithin(1_000, new Promise(() => {}));
    const settled = vi.fn();
    void finished.then(settled);
    await vi.advanceTimersByTimeAsync(999);
    expect(settled).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(settled).toHaveBeenCalledWith(false);
  });

  it('passes on what went wrong', async () => {
    await expect(finishesWithin(1_000, Promise.reject(new Error('no')))).rejects.toThrow('no');
  });
});
