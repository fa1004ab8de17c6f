import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { defineConfig, type Plugin } from 'rolldown';
import { bundledFunctions } from './bundled-functions.ts';
import { pageFiles } from './page-files.ts';
import { thirdPartyLicenses } from './third-party-licenses.ts';

const root = join(import.meta.dirname, '../..');

/** npm links a bin as executable by itself; whoever runs the file without npm needs it as well. */
const executable: Plugin = {
  name: 'executable',
  async writeBundle({ dir = '.' }) {
    await chmod(join(dir, 'wg-keepalive.js'), 0o755);
  },
};

/**
 * The published program: Node does not run TypeScript below node_modules, so it ships as JavaScript, with all packages
 * inside and each command in a chunk of its own.
 */
export default defineConfig({
  input: {
    'wg-keepalive': join(root, 'shared/cli/main.ts'),
    'chunks/engine-main': join(root, 'shared/cli/engine-main.ts'), // a thread's entry, beside the chunk that starts it
  },
  platform: 'node',
  external: [/^node:/],
  transform: { target: 'node22.19' },
  output: {
    dir: join(root, 'dist'),
    format: 'esm',
    cleanDir: true,
    chunkFileNames: 'chunks/[name]-[hash].js',
    comments: { legal: false }, // they are in the file of licenses, once
  },
  plugins: [
    bundledFunctions,
    executable,
    pageFiles(join(root, 'infra/ui')),
    thirdPartyLicenses('THIRD-PARTY-LICENSES.txt', ['uplot']), // served, not imported
  ],
});
