import { randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive } from './process.ts';

const POLL_MS = 500;

/** Holder of a lock that somebody else has. */
export type LockHolder = {
  readonly pid: number;
};

/**
 * Waits for a lock between processes of this machine. The lock is a file that holds its owner's process id; it appears
 * with its content (a hard link), so it is never read half-written, and one whose owner is dead is taken over. Two that
 * take over at the same instant may both get it: it saves double work, it does not guard data (installs are renames).
 *
 * @param onWait - called on every poll while another process holds the lock; return true to give up waiting
 * @returns the lock, undefined if `onWait` gave up
 */
export async function acquireLock(
  file: string,
  onWait: (holder: LockHolder) => boolean | Promise<boolean>,
): Promise<AsyncDisposable | undefined> {
  const own = `${file}.${randomUUID()}`;
  await writeFile(own, `${process.pid}`);
  try {
    while (!(await linked(own, file))) {
      const pid = Number(await readFile(file, 'utf8').catch(() => undefined));
      if (!isAlive(pid)) await rm(file, { force: true });
      else if (await onWait({ pid })) return undefined;
      else await sleep(POLL_MS);
    }
  } finally {
    await rm(own, { force: true });
  }
  return { [Symbol.asyncDispose]: () => rm(file, { force: true }) };
}

async function linked(existing: string, path: string): Promise<boolean> {
  try {
    await link(existing, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}
