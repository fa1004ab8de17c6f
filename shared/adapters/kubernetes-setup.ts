import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Clock } from '../ports/clock.ts';
import { StoreError } from '../ports/connection-store.ts';
import { type Crd, gapsOf, withGapsClosed } from './crd-schema.ts';
import type { KubernetesClient } from './kubernetes-client.ts';

export type CrdSetupOptions = {
  /** Folder with the CRDs as YAML, one a file: `infra/crds`. */
  readonly folder: string;
  readonly clock: Clock;
  /** `check` writes nothing. @defaultValue install */
  readonly mode?: 'install' | 'check';
  /** How long a CRD may take to be served. @defaultValue 30 s */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
};

export type CrdOutcome = { readonly name: string; readonly change: 'created' | 'extended' | 'none' };

/**
 * - `missing`: not installed, and we may not or shall not install it
 * - `outdated`: installed, but without what we need, and we may not, shall not or cannot add it
 * - `forbidden`: we may not even read it
 * - `not-served`: installed, but the API server does not serve it in time
 */
export type CrdSetupErrorCode = 'missing' | 'outdated' | 'forbidden' | 'not-served';

export class CrdSetupError extends Error {
  readonly code: CrdSetupErrorCode;
  constructor(code: CrdSetupErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CrdSetupError';
    this.code = code;
  }
}

type Manifest = { readonly name: string; readonly text: string; readonly crd: Crd };

const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const FIELD_MANAGER = 'wg-keepalive-setup';
const DEFAULT_TIMEOUT_MS = 30_000;
const POLL_MS = 100;
const WRITE_ATTEMPTS = 5;

/**
 * Sees to it that the API server serves the CRDs with all that our writes rely on. A missing one is installed from its
 * YAML, to the letter; one that lacks something gets exactly that; one that has more keeps it. Whatever was done, the CRD
 * is read back and held against the YAML.
 *
 * @throws CrdSetupError that says what is missing and what to do; StoreError if the API server does not answer
 */
export async function setupCrds(client: KubernetesClient, options: CrdSetupOptions): Promise<CrdOutcome[]> {
  const outcomes: CrdOutcome[] = [];
  for (const manifest of await readManifests(options.folder)) {
    const change = await settle(client, manifest, options);
    await untilServed(client, manifest, options);
    outcomes.push({ name: manifest.name, change });
  }
  return outcomes;
}

/** The uid of the kube-system namespace, by which a cluster is known. */
export async function readClusterUid(client: KubernetesClient, signal?: AbortSignal): Promise<string> {
  const path = '/api/v1/namespaces/kube-system';
  const { body } = await client.call<{ metadata: { uid: string } }>({ method: 'GET', path, signal });
  return body.metadata.uid;
}

async function readManifests(folder: string): Promise<Manifest[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.yaml')).sort();
  if (files.length === 0) throw new Error(`${folder} holds no *.yaml: point setup at the folder infra/crds`);
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8');
      const crd = parse(text) as Crd;
      return { name: crd.metadata.name, text, crd };
    }),
  );
}

async function settle(
  client: KubernetesClient,
  manifest: Manifest,
  { mode = 'install', signal }: CrdSetupOptions,
): Promise<CrdOutcome['change']> {
  for (let attempt = 1; ; attempt++) {
    const live = await read(client, manifest, signal);
    const gaps = live && gapsOf(manifest.crd, live);
    if (gaps?.length === 0) return 'none';
    if (mode === 'check') throw refusal(manifest, gaps, 'this run only checks');
    try {
      if (live === undefined) await install(client, manifest, signal);
      else await extend(client, manifest, live, signal);
      return live === undefined ? 'created' : 'extended';
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.code === 'forbidden') throw refusal(manifest, gaps, 'we may not change it', error);
      if (error.code !== 'conflict' || attempt === WRITE_ATTEMPTS) throw error;
    }
  }
}

async function read(
  client: KubernetesClient,
  { name }: Manifest,
  signal: AbortSignal | undefined,
): Promise<Crd | undefined> {
  try {
    return (await client.call<Crd>({ method: 'GET', path: `${CRDS}/${name}`, signal })).body;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'not-found') return undefined;
    if (error.status !== 403) throw error; // who has no credentials, or wrong ones, needs no grant
    const todo = 'grant "get" on customresourcedefinitions, or run setup with an account that has it';
    throw new CrdSetupError('forbidden', `CRD ${name} cannot be read: ${error.message}; ${todo}`, { cause: error });
  }
}

/** The text goes as it is: typed clients drop the x-kubernetes-* keys. Without force, as there is nothing to take over. */
async function install(client: KubernetesClient, { name, text }: Manifest, signal?: AbortSignal): Promise<void> {
  await client.call({
    method: 'PATCH',
    path: `${CRDS}/${name}`,
    query: { fieldManager: FIELD_MANAGER, fieldValidation: 'Strict' },
    contentType: 'application/apply-patch+yaml',
    body: text,
    signal,
  });
}

async function extend(client: KubernetesClient, manifest: Manifest, live: Crd, signal?: AbortSignal): Promise<void> {
  const extended = withGapsClosed(manifest.crd, live);
  const rest = gapsOf(manifest.crd, extended);
  if (rest.length > 0) throw refusal(manifest, rest, 'that cannot be added to what is installed');
  await client.call({
    method: 'PUT',
    path: `${CRDS}/${manifest.name}`,
    query: { fieldManager: FIELD_MANAGER, fieldValidation: 'Strict' },
    body: extended,
    signal,
  });
}

/** A CRD is served some time after it was written; until then its resource is not found. */
async function untilServed(client: KubernetesClient, manifest: Manifest, options: CrdSetupOptions): Promise<void> {
  const { clock, signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const deadlineMs = clock.monotonicMs() + timeoutMs;
  for (;;) {
    const doubt = await whyNotServed(client, manifest, signal);
    if (doubt === undefined) return;
    if (clock.monotonicMs() > deadlineMs) {
      throw new CrdSetupError('not-served', `CRD ${manifest.name} is not served after ${timeoutMs} ms: ${doubt}`);
    }
    await clock.sleep(POLL_MS, signal);
  }
}

async function whyNotServed(
  client: KubernetesClient,
  manifest: Manifest,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const live = await read(client, manifest, signal);
  if (live === undefined) return 'it was deleted';
  const gaps = gapsOf(manifest.crd, live);
  if (gaps.length > 0) throw refusal(manifest, gaps, 'the API server did not keep what was written');
  const conditions = live.status?.conditions ?? [];
  const clash = conditions.find(({ type, status }) => type === 'NamesAccepted' && status === 'False');
  if (clash) return `another CRD has its names: ${clash.message}`;
  const isEstablished = conditions.some(({ type, status }) => type === 'Established' && status === 'True');
  return isEstablished ? whyNotListed(client, manifest, signal) : 'it is not Established';
}

/** Established says that it may be served; that it is, only a request shows. */
async function whyNotListed(
  client: KubernetesClient,
  { crd: { spec } }: Manifest,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const path = `/apis/${spec.group}/${spec.versions[0]?.name}/${spec.names.plural}`;
  try {
    await client.call({ method: 'GET', path, query: { limit: 1 }, signal });
    return undefined;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return error.code === 'forbidden' ? undefined : error.message; // who may not list it is told so all the same
  }
}

function refusal({ name }: Manifest, gaps: readonly string[] | undefined, why: string, cause?: Error): CrdSetupError {
  const todo = `an administrator can mend it with "wg-keepalive setup" or "kubectl apply --server-side -f infra/crds"`;
  const [code, what] = gaps
    ? (['outdated', `lacks what we need (${gaps.join('; ')})`] as const)
    : (['missing', 'is not installed'] as const);
  return new CrdSetupError(code, `CRD ${name} ${what}, and ${why}; ${todo}`, { cause });
}
