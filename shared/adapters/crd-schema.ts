/** What of a CustomResourceDefinition decides whether our writes are kept and merged as they must be. */
export type Crd = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly resourceVersion?: string };
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly scope: string;
    readonly versions: readonly CrdVersion[];
  };
  readonly status?: { readonly conditions?: readonly CrdCondition[] };
};

export type CrdCondition = {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
};

type CrdVersion = {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly subresources?: { readonly status?: object };
  readonly schema?: { readonly openAPIV3Schema?: Schema };
};

type Schema = {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly string[];
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-map-type'?: string;
};

/** How Server-Side Apply merges; clients that read a CRD into typed objects lose these keys. */
const MERGE_KEYS = ['x-kubernetes-list-type', 'x-kubernetes-list-map-keys', 'x-kubernetes-map-type'] as const;

/**
 * What the installed CRD lacks of the wanted one, a sentence each; none if it has all, and possibly more.
 * Stricter or looser rules for a value count only where they would refuse one of ours.
 */
export function gapsOf(wanted: Crd, live: Crd): string[] {
  return [...gaps(wanted, live)];
}

function* gaps(wanted: Crd, live: Crd): Generator<string> {
  if (live.spec.scope !== wanted.spec.scope) yield `scope is ${live.spec.scope}, not ${wanted.spec.scope}`;
  for (const version of wanted.spec.versions) {
    const installed = live.spec.versions.find(({ name }) => name === version.name);
    if (!installed?.served) {
      yield `version ${version.name} is not served`;
      continue;
    }
    if (version.subresources?.status && !installed.subresources?.status) yield 'there is no status subresource';
    yield* schemaGaps(version.schema?.openAPIV3Schema ?? {}, installed.schema?.openAPIV3Schema, '');
  }
}

function* schemaGaps(wanted: Schema, live: Schema | undefined, at: string): Generator<string> {
  if (live === undefined) {
    yield `${at} is missing`;
    return;
  }
  if (live.type !== wanted.type) yield `${at} is of type ${live.type}, not ${wanted.type}`;
  for (const key of MERGE_KEYS) {
    if (isEqual(live[key], wanted[key])) continue;
    yield `${at} has ${key} ${JSON.stringify(live[key]) ?? 'unset'}, not ${JSON.stringify(wanted[key]) ?? 'unset'}`;
  }
  const refused = live.enum ? (wanted.enum ?? []).filter((value) => !live.enum?.includes(value)) : [];
  if (refused.length > 0) yield `${at} does not take ${refused.join(', ')}`;
  for (const [name, property] of Object.entries(wanted.properties ?? {})) {
    yield* schemaGaps(property, live.properties?.[name], at === '' ? name : `${at}.${name}`);
  }
  if (wanted.items) yield* schemaGaps(wanted.items, live.items, `${at}[]`);
}

/**
 * The installed CRD with the gaps closed and nothing else changed: what it has beyond ours, of a newer Liqo say, stays.
 * What cannot be closed by adding (scope, a version that is not there, a type) is left, for {@link gapsOf} to tell.
 */
export function withGapsClosed(wanted: Crd, live: Crd): Crd {
  const versions = live.spec.versions.map((installed) => {
    const version = wanted.spec.versions.find(({ name }) => name === installed.name);
    if (version === undefined) return installed;
    const schema = { openAPIV3Schema: graft(version.schema?.openAPIV3Schema ?? {}, installed.schema?.openAPIV3Schema) };
    return { ...installed, subresources: { ...version.subresources, ...installed.subresources }, schema };
  });
  return { ...live, spec: { ...live.spec, versions } };
}

function graft(wanted: Schema, live: Schema | undefined): Schema {
  if (live === undefined) return wanted;
  const mergeKeys = MERGE_KEYS.filter((key) => wanted[key] !== undefined).map((key) => [key, wanted[key]]);
  const properties = Object.entries(wanted.properties ?? {}).map(([name, property]): [string, Schema] => [
    name,
    graft(property, live.properties?.[name]),
  ]);
  return {
    ...live,
    ...Object.fromEntries(mergeKeys),
    ...(live.enum && { enum: [...new Set([...live.enum, ...(wanted.enum ?? [])])] }),
    ...(properties.length > 0 && { properties: { ...live.properties, ...Object.fromEntries(properties) } }),
    ...(wanted.items && { items: graft(wanted.items, live.items) }),
  };
}

function isEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
