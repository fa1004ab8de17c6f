import { globSync } from 'node:fs';

/** Where a function is defined: `handler.ts` is called by events, `worker.ts` runs by itself. */
const FUNCTION_FILES = '*/{handler,worker}.ts';

/** Files of functions below a folder, as paths relative to it, in order. */
export function functionFiles(folder: string): readonly string[] {
  return globSync(FUNCTION_FILES, { cwd: folder }).sort();
}

/**
 * What the files of functions beside this one export, by path. The bundle has no folders: in place of this file,
 * `infra/bundle` puts the imports of those that there were when it was made.
 */
export async function importFunctions(): Promise<Readonly<Record<string, object>>> {
  const files = functionFiles(import.meta.dirname);
  const modules = await Promise.all(files.map((file): Promise<object> => import(new URL(file, import.meta.url).href)));
  return Object.fromEntries(modules.map((module, index) => [files[index], module]));
}
