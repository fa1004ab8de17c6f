import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * A file or folder of the package, wherever this code was bundled to: `infra/crds`.
 *
 * @throws Error if no folder above has it: the package is not whole
 */
export function packagePath(relative: string): string {
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    const path = join(folder, relative);
    if (existsSync(join(folder, 'package.json')) && existsSync(path)) return path;
  }
  throw new Error(`${relative} is missing beside ${import.meta.dirname}: the package is not whole, install it again`);
}
