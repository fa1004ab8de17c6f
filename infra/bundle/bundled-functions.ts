import { join } from 'node:path';
import type { Plugin } from 'rolldown';
import { functionFiles } from '../../functions/import-functions.ts';

const FOLDER = join(import.meta.dirname, '../../functions');
const LOADER = join(FOLDER, 'import-functions.ts');

/** Puts the functions that there are into the bundle, in place of the code that looks for them when it runs. */
export const bundledFunctions: Plugin = {
  name: 'bundled-functions',
  load(id) {
    if (id !== LOADER) return null;
    const files = functionFiles(FOLDER);
    const imports = files.map((file, index) => `import * as function${index} from './${file}';`);
    const entries = files.map((file, index) => `${JSON.stringify(file)}: function${index},`);
    const code = [...imports, `export const importFunctions = async () => ({ ${entries.join(' ')} });`];
    return { code: code.join('\n'), moduleType: 'js' };
  },
};
