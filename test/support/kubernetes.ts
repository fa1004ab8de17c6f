import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type KubeApiserver,
  type KubeApiserverOptions,
  launchKubeApiserver,
} from '../../infra/servers/launch-kube-apiserver.ts';
import { KubernetesClient, type KubernetesClientOptions } from '../../shared/adapters/kubernetes-client.ts';
import { setupCrds } from '../../shared/adapters/kubernetes-setup.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { TcpProxy } from './tcp-proxy.ts';

export const crdFolder = fileURLToPath(new URL('../../infra/crds', import.meta.url));

/** What differs from the API server's own kubeconfig of `admin`. */
export type KubeconfigChanges = {
  readonly server?: string;
  readonly proxyUrl?: string;
  readonly user?:
    | { readonly token: string }
    | { readonly tokenFile: string }
    | { readonly 'client-certificate': string; readonly 'client-key': string };
};

/** A real API server, and what tests need of it: an administrator, namespaces, clients that go their own ways. */
export class KubernetesUnderTest implements AsyncDisposable {
  readonly api: KubeApiserver;
  readonly admin: KubernetesClient;
  readonly folder: string;
  readonly #cleanUp: AsyncDisposableStack;
  #namespaces = 0;
  #kubeconfigs = 0;

  private constructor(api: KubeApiserver, admin: KubernetesClient, folder: string, cleanUp: AsyncDisposableStack) {
    this.api = api;
    this.admin = admin;
    this.folder = folder;
    this.#cleanUp = cleanUp;
  }

  /** @param options - of the API server; `crds: false` leaves it without ours */
  static async start(options: KubeApiserverOptions & { readonly crds?: boolean } = {}): Promise<KubernetesUnderTest> {
    await using cleanUp = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'wg-keepalive-kubernetes-'));
    cleanUp.defer(() => rm(folder, { recursive: true, force: true }));
    const api = cleanUp.use(await launchKubeApiserver(options));
    const admin = await KubernetesClient.connect({ clock: systemClock, kubeconfig: api.kubeconfig });
    cleanUp.defer(() => admin.close());
    if (options.crds !== false) await setupCrds(admin, { folder: crdFolder, clock: systemClock });
    return new KubernetesUnderTest(api, admin, folder, cleanUp.move());
  }

  /** A client that lives as long as the cluster does. */
  async client(
    changes: KubeconfigChanges = {},
    options: Partial<KubernetesClientOptions> = {},
  ): Promise<KubernetesClient> {
    const kubeconfig = await this.kubeconfig(changes);
    const client = await KubernetesClient.connect({ clock: systemClock, kubeconfig, ...options });
    this.#cleanUp.defer(() => client.close());
    return client;
  }

  async kubeconfig({ server = this.api.url, proxyUrl, user }: KubeconfigChanges = {}): Promise<string> {
    const file = join(this.folder, `kubeconfig-${++this.#kubeconfigs}`);
    // The client takes a server in the clear only where nothing is to be verified.
    const isClear = server.startsWith('http:');
    const trust = isClear ? { 'insecure-skip-tls-verify': true } : { 'certificate-authority': this.api.caFile };
    const cluster = { server, ...trust, ...(proxyUrl && { 'proxy-url': proxyUrl }) };
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'test', user: user ?? { token: this.api.tokenOf('admin') } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      'current-context': 'test',
    };
    await writeFile(file, JSON.stringify(config), { mode: 0o600 });
    return file;
  }

  /** A relay to the API server, or to what stands before it, and the URL under which that is reached there. */
  async relay(target = this.api.url): Promise<{ readonly relay: TcpProxy; readonly server: string }> {
    const { protocol, hostname: host, port } = new URL(target);
    const relay = this.#cleanUp.use(await TcpProxy.start({ host, port: Number(port) }));
    return { relay, server: `${protocol}//127.0.0.1:${relay.port}` };
  }

  /** Creates a namespace that no other test uses. */
  async namespace(): Promise<string> {
    const name = `test-${++this.#namespaces}`;
    await this.admin.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } });
    return name;
  }

  /** A ServiceAccount that may do everything, and a token of it. */
  async tokenOfNewAccount(namespace: string, name: string): Promise<string> {
    const { admin } = this;
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    const bindings = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings';
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' };
    const subjects = [{ kind: 'ServiceAccount', namespace, name }];
    const binding = { metadata: { name: `${namespace}-${name}` }, roleRef, subjects };
    await admin.call({ method: 'POST', path: accounts, body: { metadata: { name } } });
    await admin.call({ method: 'POST', path: bindings, body: binding });
    const body = { spec: { expirationSeconds: 600 } };
    const answer = await admin.call<{ status: { token: string } }>({
      method: 'POST',
      path: `${accounts}/${name}/token`,
      body,
    });
    return answer.body.status.token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanUp.disposeAsync();
  }
}
