import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { dependenciesMarkdown, lockedPackages } from '../support/dependencies-page.ts';

/** Licenses that anybody may use and pass on; MPL-2.0 asks for changed files back, PSF-2.0 for its notice. */
const ACCEPTED = [
  'MIT',
  'Apache-2.0',
  'MIT OR Apache-2.0',
  'ISC',
  'BSD-3-Clause',
  '0BSD',
  'Unlicense',
  'MPL-2.0',
  'PSF-2.0',
];

const locked = await lockedPackages();

async function packageJson(): Promise<{ devDependencies: Record<string, string>; allowScripts: unknown }> {
  return JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
}

describe('package-lock.json', () => {
  it('has the hash of every package', () => {
    expect(locked.length).toBeGreaterThan(100);
    expect(locked.filter(({ integrity }) => !integrity?.startsWith('sha512-'))).toEqual([]);
  });

  it('names no host, so that any registry can serve it', () => {
    expect(locked.filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });

  it('runs one install script, that of the package which brings Node', async () => {
    expect(locked.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name)).toEqual(['node']);
    expect((await packageJson()).allowScripts).toEqual({ node: true });
  });

  it('has only packages whose license we accept', () => {
    expect(locked.filter(({ license }) => !ACCEPTED.includes(license ?? ''))).toEqual([]);
  });
});

describe('package.json', () => {
  it('takes exact versions, and none for who installs the published package', async () => {
    const { devDependencies, ...others } = await packageJson();
    for (const version of Object.values(devDependencies)) expect(version).toMatch(/^(npm:.+@)?\d+\.\d+\.\d+$/);
    expect(Object.keys(others).filter((key) => /dependencies/i.test(key))).toEqual([]);
  });
});

describe('docs/dependencies.md', () => {
  it('is what package.json and the lock say (npx vitest run test/cli/dependencies.test.ts -u writes it)', async () => {
    await expect(await dependenciesMarkdown()).toMatchFileSnapshot('../../docs/dependencies.md');
  });
});
