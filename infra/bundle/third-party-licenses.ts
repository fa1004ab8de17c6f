import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Plugin } from 'rolldown';

type Package = { readonly name: string; readonly version: string; readonly license: string; readonly text: string };

const LICENSE_FILE = /^(licen[cs]e|notice|copying)/i;

/**
 * Writes `fileName` beside the bundle: name, version and license of every package that is part of it.
 *
 * @param others - packages that are part of it though no module imports them
 */
export function thirdPartyLicenses(fileName: string, others: readonly string[] = []): Plugin {
  return {
    name: 'third-party-licenses',
    async generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((output) => (output.type === 'chunk' ? output.moduleIds : []));
      const { resolve } = createRequire(import.meta.url);
      const folders = new Set(
        [...modules, ...others.map((name) => resolve(name))].flatMap((id) => packageFolderOf(id) ?? []),
      );
      const packages = await Promise.all([...folders].sort().map(readPackage));
      const source = packages.map(({ name, version, license, text }) => `${name} ${version} (${license})\n\n${text}`);
      this.emitFile({ type: 'asset', fileName, source: `${source.join(`\n\n${'-'.repeat(80)}\n\n`)}\n` });
    },
  };
}

/** `…/node_modules/@scope/name` of a module below it; undefined for our own. */
function packageFolderOf(moduleId: string): string | undefined {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(moduleId.replaceAll('\\', '/'))?.[0];
}

async function readPackage(folder: string): Promise<Package> {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const files = (await readdir(folder)).filter((file) => LICENSE_FILE.test(file)).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  if (!license && texts.length === 0) throw new Error(`${dirname(folder)}: ${name} tells no license`);
  return { name, version, license: license ?? 'see below', text: texts.join('\n\n').trim() };
}
