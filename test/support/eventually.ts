import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 10;

/**
 * Polls until the condition holds.
 *
 * @param what - what is waited for, in the error
 * @throws Error once `limitMs` of real time is over
 */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  limitMs = 20_000,
): Promise<void> {
  const endMs = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`waited ${limitMs} ms in vain for ${what}`);
    await sleep(POLL_MS);
  }
}
