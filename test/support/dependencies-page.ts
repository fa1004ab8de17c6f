import { glob, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

export type LockedPackage = {
  /** `node_modules/ajv`, or deeper for a second version. */
  readonly path: string;
  readonly name: string;
  readonly version: string;
  readonly license: string | undefined;
  readonly integrity: string | undefined;
  readonly resolved: string | undefined;
  readonly hasInstallScript: boolean;
};

const root = join(import.meta.dirname, '../..');

/** Every package of package-lock.json, ours left out. */
export async function lockedPackages(): Promise<readonly LockedPackage[]> {
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, Partial<LockedPackage>>>;
  };
  return Object.entries(packages)
    .filter(([path]) => path !== '')
    .map(([path, { name, version = '', license, integrity, resolved, hasInstallScript = false }]) => ({
      ...{ path, name: name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length), version },
      ...{ license, integrity, resolved, hasInstallScript },
    }));
}

/** The page `docs/dependencies.md`. */
export async function dependenciesMarkdown(): Promise<string> {
  const locked = await lockedPackages();
  const { devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  const direct = Object.entries(devDependencies).map(([alias, wanted]) => {
    const found = locked.find(({ path }) => path === `node_modules/${alias}`);
    return `| ${/^npm:(.+)@[^@]+$/.exec(wanted)?.[1] ?? alias} | ${found?.version} | ${found?.license} |`;
  });
  const byLicense = [...Map.groupBy(locked, ({ license }) => license ?? 'none')].map(
    ([license, packages]) => `| ${license} | ${packages.length} |`,
  );
  const goModules = await Promise.all(
    (await Array.fromAsync(glob('{infra,test}/**/go.mod', { cwd: root }))).sort().map(goModule),
  );
  return `# Dependencies

Written by \`npx vitest run test/cli/dependencies.test.ts -u\` from \`package.json\`, \`package-lock.json\` and the \`go.mod\` files; a test holds it against them. The published package depends on nothing: what it uses is in its
bundle, listed with its licenses in \`dist/THIRD-PARTY-LICENSES.txt\`. \`npm run sbom\` prints all of it in CycloneDX.

## Chosen packages

| package | version | license |
| --- | --- | --- |
${direct.join('\n')}

## Licenses of all ${locked.length} packages, those for other systems included

| license | packages |
| --- | ---: |
${byLicense.sort().join('\n')}

## Programs built from Go modules, for tests and the lab only

| program | built from |
| --- | --- |
${goModules.filter((row) => row !== undefined).join('\n')}

Debian packages that the suites on real parts drive: see \`.ci/run\`.
`;
}

/** A row of the table: the folder, and the module that it builds or uses; `undefined` where there is none but its own. */
async function goModule(file: string): Promise<string | undefined> {
  const text = await readFile(join(root, file), 'utf8');
  const tool = /^tool (\S+)$/m.exec(text)?.[1];
  const required = [...text.matchAll(/^(?:require |\t)(\S+) (v\S+)/gm)];
  const [, module, version] =
    required.find(([, name = '']) => tool === undefined || `${tool}/`.startsWith(`${name}/`)) ?? [];
  return module && `| ${basename(dirname(file))} | ${module} ${version} |`;
}
