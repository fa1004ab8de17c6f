import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Agent, RequestOptions } from 'node:https';
import { homedir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { parse } from 'yaml';
import type { Clock } from '../ports/clock.ts';
import { proxyFromEnvironment } from './proxy-from-environment.ts';

const SERVICE_ACCOUNT_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token';
/** A rotated token is used this much later at most; a refused one at once. */
const TOKEN_AGE_MS = 10_000;

/** TLS material, headers and, behind a proxy, the agent for one request. */
export type Credentials = Omit<RequestOptions, 'agent' | 'headers'> & {
  readonly headers: Record<string, string>;
  readonly proxyAgent: Agent | undefined;
};

/**
 * Where the API server is and how to be let in: the pod's ServiceAccount, else a kubeconfig with certificates, tokens,
 * token files, exec plugins, OIDC or a proxy, which may be named by the environment too. Files are read anew, so rotated
 * certificates and tokens come into use.
 */
export class KubernetesAccess {
  readonly server: string;
  readonly #config: KubeConfig;
  readonly #token: TokenFile | undefined;

  private constructor(config: KubeConfig, server: string, token: TokenFile | undefined) {
    this.#config = config;
    this.server = server;
    this.#token = token;
  }

  /**
   * @param kubeconfig - a file that goes before all else; without it: in-cluster, else KUBECONFIG, else `~/.kube/config`
   * @throws Error that names the file or variable at fault
   */
  static async load(clock: Clock, kubeconfig?: string): Promise<KubernetesAccess> {
    const config = new KubeConfig();
    const inCluster = process.env.KUBERNETES_SERVICE_HOST !== undefined && existsSync(SERVICE_ACCOUNT_TOKEN);
    if (kubeconfig === undefined && inCluster) {
      config.loadFromCluster();
      return KubernetesAccess.#of(config, 'the ServiceAccount', new TokenFile(SERVICE_ACCOUNT_TOKEN, clock));
    }
    const files = kubeconfig === undefined ? defaultKubeconfigs() : [kubeconfig];
    try {
      for (const file of files) merge(config, file);
      const user = config.getCurrentUser()?.name;
      const path = user === undefined ? undefined : await tokenFileOf(files, user);
      return KubernetesAccess.#of(config, files.join(delimiter), path ? new TokenFile(path, clock) : undefined);
    } catch (error) {
      throw new Error(`kubeconfig ${files.join(delimiter)}: ${(error as Error).message}`, { cause: error });
    }
  }

  static #of(config: KubeConfig, source: string, token: TokenFile | undefined): KubernetesAccess {
    const cluster = config.getCurrentCluster();
    if (!cluster) throw new Error(`${source} has no cluster for its current context "${config.currentContext}"`);
    if (cluster.server.startsWith('http:') && !cluster.skipTLSVerify) {
      const todo = 'want https://, or insecure-skip-tls-verify: true beside it where going without TLS is meant';
      throw new Error(`${source} has server "${cluster.server}" for its cluster "${cluster.name}": ${todo}`);
    }
    const proxyUrl = cluster.proxyUrl ?? proxyFromEnvironment(cluster.server, process.env);
    if (proxyUrl !== undefined) Object.assign(cluster, { proxyUrl });
    return new KubernetesAccess(config, cluster.server, token);
  }

  /** @throws Error if a file, an exec plugin or an identity provider fails */
  async credentials(): Promise<Credentials> {
    const options: RequestOptions = {};
    await this.#config.applyToHTTPSOptions(options);
    const { agent, headers, ...tls } = options;
    const authorization = this.#token && { Authorization: `Bearer ${await this.#token.read()}` };
    return {
      ...tls,
      headers: { ...(headers as Record<string, string>), ...authorization },
      // Without a proxy its agent is of no use: one certificate for ever, and no bound on sockets.
      proxyAgent: this.#config.getCurrentCluster()?.proxyUrl ? (agent as Agent) : undefined,
    };
  }

  /** After a refusal: whether the token file holds another token by now. */
  async renew(): Promise<boolean> {
    return (await this.#token?.renew()) ?? false;
  }
}

class TokenFile {
  readonly #path: string;
  readonly #clock: Clock;
  #token = '';
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  async read(): Promise<string> {
    if (this.#clock.monotonicMs() - this.#readAtMs > TOKEN_AGE_MS) await this.renew();
    return this.#token;
  }

  async renew(): Promise<boolean> {
    const before = this.#token;
    this.#token = (await readFile(this.#path, 'utf8')).trim();
    this.#readAtMs = this.#clock.monotonicMs();
    return this.#token !== before;
  }
}

function defaultKubeconfigs(): string[] {
  const listed = (process.env.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '');
  const home = join(homedir(), '.kube', 'config');
  if (listed.length > 0) return listed;
  if (existsSync(home)) return [home];
  throw new Error(`no Kubernetes access: not in a cluster, KUBECONFIG is not set and ${home} does not exist`);
}

function merge(config: KubeConfig, file: string): void {
  const next = new KubeConfig();
  next.loadFromFile(file);
  config.mergeConfig(next, config.getCurrentContext() !== undefined); // of several files, the first says where we are
}

type KubeconfigText = { readonly users?: readonly { name?: string; user?: { tokenFile?: string } }[] };

/** client-node does not know `tokenFile`, the key that kubectl reads. */
async function tokenFileOf(files: readonly string[], user: string): Promise<string | undefined> {
  for (const file of files) {
    const { users = [] } = parse(await readFile(file, 'utf8')) as KubeconfigText;
    const tokenFile = users.find(({ name }) => name === user)?.user?.tokenFile;
    if (tokenFile !== undefined) return resolve(dirname(file), tokenFile);
  }
  return undefined;
}
