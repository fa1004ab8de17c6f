import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import type { PageFile } from '../adapters/page-server.ts';
import { packagePath } from './package-root.ts';

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Where uPlot has what the page loads from `vendor/`. */
export const VENDOR_FILES = { 'uplot.js': 'uPlot.esm.js', 'uplot.css': 'uPlot.min.css' } as const;

/**
 * Everything that the page is made of, by path. The bundle has it beside itself (`infra/bundle` puts it there); in the
 * checkout the sources are served as they are.
 */
export async function readPageFiles(): Promise<ReadonlyMap<string, PageFile>> {
  const bundled = join(import.meta.dirname, '../ui');
  const files = existsSync(bundled)
    ? await filesBelow(bundled)
    : new Map([...(await filesBelow(packagePath('infra/ui'))), ...vendorFiles()]);
  const read = await Promise.all(
    [...files].map(async ([path, file]): Promise<readonly [string, PageFile]> => {
      return [path, { contentType: CONTENT_TYPES[extname(file)] as string, body: await readFile(file) }];
    }),
  );
  const pages = new Map(read);
  pages.set('/', pages.get('/index.html') as PageFile);
  return pages;
}

async function filesBelow(folder: string): Promise<ReadonlyMap<string, string>> {
  const names = await readdir(folder, { recursive: true });
  const known = names.filter((name) => Object.hasOwn(CONTENT_TYPES, extname(name)));
  return new Map(known.map((name) => [`/${name.replaceAll('\\', '/')}`, join(folder, name)]));
}

function vendorFiles(): readonly (readonly [string, string])[] {
  const folder = dirname(createRequire(import.meta.url).resolve('uplot'));
  return Object.entries(VENDOR_FILES).map(([name, file]) => [`/vendor/${name}`, join(folder, file)]);
}
