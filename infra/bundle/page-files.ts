import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Plugin } from 'rolldown';
import { VENDOR_FILES } from '../../shared/cli/page-files.ts';

const SERVED = /\.(html|js|css|svg)$/;

/** Puts the page beside the program, where `shared/cli/page-files.ts` looks for it: a browser loads its files as they are. */
export function pageFiles(folder: string): Plugin {
  return {
    name: 'page-files',
    async generateBundle() {
      const vendor = dirname(createRequire(import.meta.url).resolve('uplot'));
      const files = [
        ...(await readdir(folder))
          .filter((name) => SERVED.test(name))
          .map((name) => [name, join(folder, name)] as const),
        ...Object.entries(VENDOR_FILES).map(([name, file]) => [`vendor/${name}`, join(vendor, file)] as const),
      ];
      for (const [name, file] of files) {
        this.emitFile({ type: 'asset', fileName: `ui/${name}`, source: await readFile(file, 'utf8') });
      }
    },
  };
}
