import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { fileURLToPath } from 'node:url';
import { requireServer } from './find.ts';
import { onFreePorts } from './free-port.ts';
import { type EtcdServer, launchEtcd } from './launch-etcd.ts';
import { RunningServer } from './running-server.ts';
import { inTemporaryFolder } from './temporary-folder.ts';

/** A user that the API server knows by a static token; what it may do is RBAC's business. */
type ApiUser = {
  readonly name: string;
  readonly groups?: readonly string[];
};

/** How a kube-apiserver is started; nothing is needed. */
export type KubeApiserverOptions = {
  /** Users besides `admin` (group system:masters). */
  readonly users?: readonly ApiUser[];
  /** Writes an audit log by `audit-policy.yaml`: each line is on disk before its request is answered. */
  readonly audit?: boolean;
  /** Address that it listens on. @defaultValue `127.0.0.1` */
  readonly host?: string;
  /** More arguments of kube-apiserver, such as `--v=4`. */
  readonly args?: readonly string[];
};

/**
 * A running kube-apiserver with an etcd of its own; a restart keeps port, certificate, tokens and data.
 * There is no controller manager: no garbage collection of dependants, no end of a deleted namespace.
 * Static tokens never expire; tokens that do come from the TokenRequest API of a ServiceAccount.
 */
export type KubeApiserver = RunningServer & {
  /** `https://host:port` */
  readonly url: string;
  /** Certificate authority that signed its certificate, PEM. */
  readonly caFile: string;
  /** Kubeconfig file of the user `admin`. */
  readonly kubeconfig: string;
  /** JSON lines of audit.k8s.io/v1 Event; undefined unless asked for. */
  readonly auditLogFile: string | undefined;
  readonly etcd: EtcdServer;
  /**
   * Static token of `admin` or of one of the given users.
   *
   * @throws Error for any other name
   */
  tokenOf(user: string): string;
  /**
   * Writes a kubeconfig file for `admin` or one of the given users, or for any token (a ServiceAccount's).
   *
   * @param tokenFile - the file is read anew by clients, so a test can rotate the token in it
   */
  writeKubeconfig(
    user: string,
    credential?: { readonly token: string } | { readonly tokenFile: string },
  ): Promise<string>;
};

const AUDIT_POLICY_FILE = fileURLToPath(new URL('audit-policy.yaml', import.meta.url));
const READY_TIMEOUT_MS = 60_000;
const SERVICE_ACCOUNT_ISSUER = 'https://kubernetes.default.svc.cluster.local';

/**
 * Starts etcd and a kube-apiserver with RBAC on free ports; ready when `/readyz` says so, some 2 s later.
 *
 * @throws MissingServerError if a part is missing and cannot be built; NotReadyError if one does not start
 */
export async function launchKubeApiserver(options: KubeApiserverOptions = {}): Promise<KubeApiserver> {
  const command = await requireServer('kube-apiserver');
  await using cleanUp = new AsyncDisposableStack();
  const etcd = cleanUp.use(await launchEtcd());
  const host = options.host ?? '127.0.0.1';
  const api = await onFreePorts(1, host, ([port = 0]) =>
    inTemporaryFolder('kube-apiserver', (folder) => startIn(folder, { ...options, command, host, port, etcd })),
  );
  cleanUp.move(); // from here on the API server's own dispose ends etcd
  return api;
}

type Placement = KubeApiserverOptions & {
  readonly command: string;
  readonly host: string;
  readonly port: number;
  readonly etcd: EtcdServer;
};

async function startIn(folder: string, placement: Placement): Promise<KubeApiserver> {
  const { command, host, port, etcd } = placement;
  const url = `https://${host}:${port}`;
  const tokens = await writeTokens(`${folder}/tokens.csv`, placement.users ?? []);
  const auditLogFile = placement.audit ? `${folder}/audit.log` : undefined;
  await writeServiceAccountKeys(folder);
  const server = await RunningServer.start(
    {
      name: 'kube-apiserver',
      command,
      args: [...argumentsFor(folder, placement), ...auditArguments(auditLogFile), ...(placement.args ?? [])],
      logFile: `${folder}/log`,
      readyTimeoutMs: READY_TIMEOUT_MS,
      probe: (signal) => isReady(url, tokens.get('admin') ?? '', signal),
    },
    folder,
  );
  const caFile = `${folder}/ca.crt`;
  await writeFile(caFile, lastCertificate(await readFile(`${folder}/certs/apiserver.crt`, 'utf8')));

  const tokenOf = (user: string) => {
    const token = tokens.get(user);
    if (token === undefined) throw new Error(`no user "${user}": known are ${[...tokens.keys()].join(', ')}`);
    return token;
  };
  const writeKubeconfig: KubeApiserver['writeKubeconfig'] = async (user, credential = { token: tokenOf(user) }) => {
    const file = `${folder}/${encodeURIComponent(user)}.kubeconfig`;
    await writeFile(file, kubeconfigText(url, caFile, user, credential), { mode: 0o600 });
    return file;
  };
  const kubeconfig = await writeKubeconfig('admin');
  const disposeOwn = server[Symbol.asyncDispose].bind(server);
  return Object.assign(server, {
    ...{ url, caFile, kubeconfig, auditLogFile, etcd, tokenOf, writeKubeconfig },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([disposeOwn(), etcd[Symbol.asyncDispose]()]);
    },
  });
}

function argumentsFor(folder: string, { host, port, etcd }: Placement): string[] {
  return [
    ...[`--etcd-servers=${etcd.url}`, `--bind-address=${host}`, `--secure-port=${port}`, `--cert-dir=${folder}/certs`],
    ...['--authorization-mode=RBAC', `--token-auth-file=${folder}/tokens.csv`],
    ...[`--service-account-issuer=${SERVICE_ACCOUNT_ISSUER}`, `--service-account-key-file=${folder}/sa.pub`],
    `--service-account-signing-key-file=${folder}/sa.key`,
    '--service-cluster-ip-range=10.0.0.0/24',
    // No controller creates default ServiceAccounts here, without which that plugin would refuse every pod.
    '--disable-admission-plugins=ServiceAccount',
    // A lone server needs no lease of its address; it would be refused for a loopback one.
    '--endpoint-reconciler-type=none',
  ];
}

/** Whoever reads the log wants all of it: by default it would begin anew after 100 MB. */
const AUDIT_LOG_MAX_MB = 10_000;

function auditArguments(logFile: string | undefined): string[] {
  if (logFile === undefined) return [];
  const [path, size] = [`--audit-log-path=${logFile}`, `--audit-log-maxsize=${AUDIT_LOG_MAX_MB}`];
  return [`--audit-policy-file=${AUDIT_POLICY_FILE}`, path, size];
}

async function writeTokens(file: string, users: readonly ApiUser[]): Promise<Map<string, string>> {
  const all: readonly ApiUser[] = [{ name: 'admin', groups: ['system:masters'] }, ...users];
  const tokens = new Map(all.map(({ name }) => [name, randomBytes(16).toString('hex')]));
  if (tokens.size < all.length) throw new Error(`users: names repeat: ${all.map(({ name }) => name).join(', ')}`);
  const lines = all.map(({ name, groups = [] }) => `${tokens.get(name)},${name},${name},"${groups.join(',')}"\n`);
  await writeFile(file, lines.join(''), { mode: 0o600 });
  return tokens;
}

async function writeServiceAccountKeys(folder: string): Promise<void> {
  await mkdir(`${folder}/certs`);
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(`${folder}/sa.pub`, publicKey.export({ type: 'spki', format: 'pem' }));
  await writeFile(`${folder}/sa.key`, privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });
}

/** Its certificate file holds the server's certificate, then that of the authority it made up for it. */
function lastCertificate(chain: string): string {
  return chain.slice(chain.lastIndexOf('-----BEGIN CERTIFICATE-----'));
}

/** JSON is YAML: every reader of kubeconfig files takes it. */
function kubeconfigText(server: string, caFile: string, name: string, credential: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority': caFile } }],
    users: [{ name, user: credential }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: name } }],
    'current-context': 'test',
  });
}

/** Its certificate is not on disk yet when the first probes come, and they send nothing worth a secret but to loopback. */
function isReady(url: string, token: string, signal: AbortSignal): Promise<true | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    get(`${url}/readyz`, { headers, signal, agent: false, rejectUnauthorized: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200 || undefined);
    }).once('error', reject);
  });
}
