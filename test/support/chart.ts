import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { requireServer } from '../../infra/servers/find.ts';
import type { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';

export const chartFolder = fileURLToPath(new URL('../../infra/chart', import.meta.url));

export type KubernetesObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & Readonly<Record<string, unknown>>;
  readonly spec?: unknown;
};

export type Container = {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe?: object;
  readonly livenessProbe?: object;
  readonly volumeMounts?: readonly { readonly name: string }[];
  readonly securityContext?: object;
};

export type PodSpec = {
  readonly containers: readonly Container[];
  readonly volumes?: readonly { readonly name: string; readonly secret?: { readonly secretName: string } }[];
  readonly serviceAccountName?: string;
};

export const RELEASE = 'wg';
export const NAMESPACE = 'wg-keepalive';

/** Values that switch on all that is off by default. */
export const EVERYTHING = {
  nats: { tls: { caSecret: 'nats-ca', clientSecret: 'nats-client' } },
  gatewayTemplates: {
    enabled: true,
    liqoImages: { gateway: 'liqo/gateway:1', wireguard: 'liqo/wireguard:1', geneve: 'liqo/geneve:1' },
  },
  podMonitors: { enabled: true, labels: { release: 'prometheus' } },
  prometheusRules: { enabled: true },
  grafanaDashboard: { enabled: true },
  keda: { enabled: true },
  page: { enabled: true },
  env: { HTTPS_PROXY: 'http://proxy:3128', NO_PROXY: '10.0.0.0/8' },
};

/** `helm ARGS…`; `input` goes to its standard input. Rejects with what it says on standard error. */
export async function helm(args: readonly string[], input = ''): Promise<string> {
  const child = spawn(await requireServer('helm'), [...args], { stdio: 'pipe' });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  if (code !== 0) throw new Error(`helm ${args.join(' ')}: ${stderr}${stdout}`);
  return stdout;
}

/** What `helm template` makes of the chart, as objects. */
export function renderChart(values: object = {}, ...flags: readonly string[]): Promise<KubernetesObject[]> {
  return renderRelease(RELEASE, values, ...flags);
}

/** The same for a release of another name. */
export async function renderRelease(
  release: string,
  values: object,
  ...flags: readonly string[]
): Promise<KubernetesObject[]> {
  const args = ['template', release, chartFolder, '--namespace', NAMESPACE, '--values', '-', ...flags];
  return parseAllDocuments(await helm(args, JSON.stringify(values)))
    .map((document) => document.toJS() as KubernetesObject | null)
    .filter((object) => object !== null);
}

/** The pod of a Deployment or Job; undefined for another kind. */
export function podOf({ kind, spec }: KubernetesObject): PodSpec | undefined {
  return kind === 'Deployment' || kind === 'Job' ? (spec as { template: { spec: PodSpec } }).template.spec : undefined;
}

/** Server-Side Apply by an administrator; with `dryRun` the API server checks everything and keeps nothing. */
export async function applyObject(
  client: KubernetesClient,
  object: KubernetesObject,
  { dryRun = false }: { readonly dryRun?: boolean } = {},
): Promise<void> {
  await client.call({
    method: 'PATCH',
    path: await pathOf(client, object),
    query: { fieldManager: 'test', fieldValidation: 'Strict', ...(dryRun && { dryRun: 'All' }) },
    contentType: 'application/apply-patch+yaml',
    body: JSON.stringify(object),
  });
}

/** A token of one of the release's ServiceAccounts, as the kubelet gets it for a pod. */
export async function accountToken(client: KubernetesClient, account: string): Promise<string> {
  const path = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${account}/token`;
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
  return (await client.call<{ status: { token: string } }>({ method: 'POST', path, body })).body.status.token;
}

type Discovery = {
  readonly resources: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[];
};

async function pathOf(client: KubernetesClient, { apiVersion, kind, metadata }: KubernetesObject): Promise<string> {
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const { body } = await client.call<Discovery>({ method: 'GET', path: group });
  const resource = body.resources.find((found) => found.kind === kind && !found.name.includes('/'));
  if (resource === undefined) throw new Error(`the API server knows no ${kind} in ${apiVersion}`);
  const place = resource.namespaced ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
  return `${group}${place}/${resource.name}/${metadata.name}`;
}
