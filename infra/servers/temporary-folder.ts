import { mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { isAlive } from './process.ts';

/** The owner's process id follows: see {@link removeAbandonedFolders}. */
const PREFIX = 'wg-keepalive-data-';
const KEPT_PREFIX = 'wg-keepalive-kept-';

/** Makes a temporary folder that ends with this process at the latest: the next one to look removes it. */
export function makeTemporaryFolder(name: string): Promise<string> {
  return mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-${name}-`));
}

/** Makes a temporary folder for one server's data and hands it over; if `use` fails, the folder is removed again. */
export async function inTemporaryFolder<T>(name: string, use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await makeTemporaryFolder(name);
  try {
    return await use(folder);
  } catch (error) {
    await removeTemporaryFolder(folder);
    throw error;
  }
}

export function removeTemporaryFolder(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

/** Lets a person have it: its new path, under which it stays. */
export async function keepTemporaryFolder(folder: string): Promise<string> {
  const kept = join(tmpdir(), basename(folder).replace(PREFIX, KEPT_PREFIX));
  await rename(folder, kept);
  return kept;
}

/** Removes the data of those whose owner was killed and could not do it. */
export async function removeAbandonedFolders(): Promise<void> {
  const abandoned = (await readdir(tmpdir())).filter(
    (name) => name.startsWith(PREFIX) && !isAlive(Number.parseInt(name.slice(PREFIX.length), 10)),
  );
  await Promise.all(abandoned.map((name) => removeTemporaryFolder(join(tmpdir(), name))));
}
