import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from './process.ts';

const PREFIX = 'wg-keepalive-data-';

/** Makes a temporary folder for one server's data and hands it over; if `use` fails, the folder is removed again. */
export async function inTemporaryFolder<T>(name: string, use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-${name}-`));
  try {
    return await use(folder);
  } catch (error) {
    await remove(folder);
    throw error;
  }
}

/** Removes the data of servers whose owner was killed and could not do it. */
export async function removeAbandonedFolders(): Promise<void> {
  const abandoned = (await readdir(tmpdir())).filter(
    (name) => name.startsWith(PREFIX) && !isAlive(Number.parseInt(name.slice(PREFIX.length), 10)),
  );
  await Promise.all(abandoned.map((name) => remove(join(tmpdir(), name))));
}

function remove(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true, maxRetries: 3 });
}
