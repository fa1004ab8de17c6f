import { readFile, rename, writeFile } from 'node:fs/promises';
import type { KubernetesClient } from '../../shared/adapters/kubernetes-client.ts';
import type { KubeApiserver } from '../servers/launch-kube-apiserver.ts';

const ACCOUNTS = '/api/v1/namespaces/kube-system/serviceaccounts';
const BINDINGS = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings';
/** Longer than any lab runs: what ends a token here is its account. */
const TOKEN_SECONDS = 7 * 86_400;

/** How the functions get to the API server: by way of a link, with a token that is in a file, as a kubelet keeps it there. */
export class FunctionsAccess {
  readonly kubeconfig: string;
  readonly #tokenFile: string;
  readonly #admin: KubernetesClient;
  #account: string | undefined;
  #rotations = 0;

  private constructor(folder: string, admin: KubernetesClient) {
    this.kubeconfig = `${folder}/kubeconfig`;
    this.#tokenFile = `${folder}/token`;
    this.#admin = admin;
  }

  /** The administrator's token at first. */
  static async create(
    folder: string,
    {
      api,
      admin,
      linkPort,
    }: { readonly api: KubeApiserver; readonly admin: KubernetesClient; readonly linkPort: number },
  ): Promise<FunctionsAccess> {
    const access = new FunctionsAccess(folder, admin);
    await access.#write(api.tokenOf('admin'));
    const straight = await api.writeKubeconfig('functions', { tokenFile: access.#tokenFile });
    const url = new URL(api.url);
    url.port = String(linkPort);
    const text = await readFile(straight, 'utf8');
    await writeFile(access.kubeconfig, text.replaceAll(api.url, url.origin), { mode: 0o600 });
    return access;
  }

  /** Another account's token takes the place of the last one, whose account goes, and with it its rights. */
  async rotate(): Promise<void> {
    const last = this.#account;
    const name = `functions-${++this.#rotations}`;
    const subjects = [{ kind: 'ServiceAccount', namespace: 'kube-system', name }];
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' };
    await this.#admin.call({ method: 'POST', path: ACCOUNTS, body: { metadata: { name } } });
    await this.#admin.call({ method: 'POST', path: BINDINGS, body: { metadata: { name }, roleRef, subjects } });
    const { body } = await this.#admin.call<{ readonly status: { readonly token: string } }>({
      ...{ method: 'POST', path: `${ACCOUNTS}/${name}/token` },
      body: { spec: { expirationSeconds: TOKEN_SECONDS } },
    });
    await this.#write(body.status.token);
    this.#account = name;
    if (last === undefined) return; // a static token, which cannot be revoked
    await this.#admin.call({ method: 'DELETE', path: `${BINDINGS}/${last}` });
    await this.#admin.call({ method: 'DELETE', path: `${ACCOUNTS}/${last}` });
  }

  /** Nobody ever reads half a token. */
  async #write(token: string): Promise<void> {
    const next = `${this.#tokenFile}.next`;
    await writeFile(next, token, { mode: 0o600 });
    await rename(next, this.#tokenFile);
  }
}
