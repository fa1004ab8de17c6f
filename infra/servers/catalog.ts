import { readFile } from 'node:fs/promises';

/** The real parts that are built from pinned Go modules, in the order in which `npm run servers` builds them. */
export const SERVER_NAMES = ['nats-server', 'etcd', 'kube-apiserver'] as const;

/** Tools that only checks need; built on request (`npm run servers -- helm promtool`). */
export const TOOL_NAMES = ['helm', 'promtool'] as const;

/** Name of a part: of its folder under `infra/servers`, and of its binary. */
export type ServerName = (typeof SERVER_NAMES)[number] | (typeof TOOL_NAMES)[number];

/** Every part that can be built. */
export const ALL_NAMES: readonly ServerName[] = [...SERVER_NAMES, ...TOOL_NAMES];

/** What it takes to find or build one part. */
export type ServerPart = {
  readonly name: ServerName;
  /** Go module that holds the part; its version stands in the part's go.mod and nowhere else. */
  readonly module: string;
  /** Folder with the part's go.mod and go.sum. */
  readonly folder: string;
  /** Package main, as the `tool` directive names it. */
  readonly package: string;
  /** Pinned version, without the leading v: `2.15.2`. */
  readonly version: string;
  /** Linker flags that make the binary report that version. */
  readonly linkerFlags: string;
  /** Arguments that make a binary print its version. */
  readonly versionArguments: readonly string[];
  /** Oldest Go that builds it, from go.mod: `1.26.0`. */
  readonly goVersion: string;
};

type CatalogEntry = {
  readonly module: string;
  /** Version as the binary reports it, where the module's differs. */
  readonly reportedVersion?: (moduleVersion: string) => string;
  readonly linkerFlags?: (version: string) => string;
  readonly versionArguments: readonly string[];
};

const CATALOG: Readonly<Record<ServerName, CatalogEntry>> = {
  'nats-server': { module: 'github.com/nats-io/nats-server/v2', versionArguments: ['--version'] },
  etcd: { module: 'go.etcd.io/etcd/server/v3', versionArguments: ['--version'] },
  'kube-apiserver': {
    module: 'k8s.io/kubernetes',
    versionArguments: ['--version'],
    // Without them it reports v0.0.0-master.
    linkerFlags: (version) => {
      const [major, minor] = version.split('.');
      return Object.entries({ gitVersion: `v${version}`, gitMajor: major, gitMinor: minor, gitTreeState: 'clean' })
        .map(([key, value]) => `-X k8s.io/component-base/version.${key}=${value}`)
        .join(' ');
    },
  },
  helm: {
    module: 'helm.sh/helm/v4',
    versionArguments: ['version', '--short'],
    linkerFlags: (version) => `-X helm.sh/helm/v4/internal/version.version=v${version}`,
  },
  promtool: {
    module: 'github.com/prometheus/prometheus',
    versionArguments: ['--version'],
    linkerFlags: (version) => `-X github.com/prometheus/common/version.Version=${version}`,
  },
};

/**
 * Reads one part's description; version, package and Go version come from its go.mod.
 *
 * @throws Error if go.mod lacks the `tool`, `go` or `require` line it is read from.
 */
export async function readPart(name: ServerName): Promise<ServerPart> {
  const { module, linkerFlags, versionArguments } = CATALOG[name];
  const folder = `${import.meta.dirname}/${name}`;
  const goMod = await readFile(`${folder}/go.mod`, 'utf8');
  const field = (what: string, pattern: RegExp) => {
    const value = goMod.match(pattern)?.[1];
    if (value === undefined) throw new Error(`${folder}/go.mod has no ${what} line: run "go mod tidy" there`);
    return value;
  };
  const version = field(`"${module} v…"`, new RegExp(`${module.replaceAll('.', '\\.')} v(\\S+)`));
  return {
    name,
    module,
    folder,
    package: field('tool', /^tool (\S+)$/m),
    version,
    linkerFlags: `-s -w ${linkerFlags?.(version) ?? ''}`.trim(),
    versionArguments,
    goVersion: field('go', /^go (\S+)$/m),
  };
}
