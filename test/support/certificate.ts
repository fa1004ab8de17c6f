import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

const DAY_MS = 86_400_000;
const NEW_KEY = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];

export type Certificate = { readonly caFile: string; readonly certFile: string; readonly keyFile: string };

/**
 * A certificate authority for one day and a certificate for loopback that it signed, as PEM files in `folder`.
 * The client checks a server that it knows by address only as `localhost`.
 */
export async function makeCertificate(folder: string): Promise<Certificate> {
  const openssl = (...args: readonly string[]) => run('openssl', [...args], { cwd: folder });
  await openssl(...NEW_KEY, '-keyout', 'ca.key', '-out', 'ca.crt', '-subj', '/CN=test authority');
  const leaf = [
    '-addext',
    'subjectAltName=DNS:localhost,IP:127.0.0.1',
    '-addext',
    'basicConstraints=critical,CA:FALSE',
  ];
  await openssl(
    ...[...NEW_KEY, '-keyout', 'server.key', '-out', 'server.crt', '-subj', '/CN=nats', ...leaf],
    ...['-CA', 'ca.crt', '-CAkey', 'ca.key'],
  );
  return { caFile: `${folder}/ca.crt`, certFile: `${folder}/server.crt`, keyFile: `${folder}/server.key` };
}

/** What a client shows of itself: a certificate and its key, PEM. */
export type ClientCertificate = { readonly certificate: string; readonly key: string };

/** An authority whose clients the API server believes (`--client-ca-file`). Needs `openssl` and `faketime`. */
export class ClientAuthority {
  readonly caFile: string;
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
    this.caFile = `${folder}/client-ca.crt`;
  }

  static async create(folder: string): Promise<ClientAuthority> {
    const authority = new ClientAuthority(folder);
    await authority.#openssl(...NEW_KEY, '-keyout', 'client-ca.key', '-out', 'client-ca.crt', '-subj', '/CN=clients');
    return authority;
  }

  /**
   * @param user - as Kubernetes reads it off the certificate, a member of system:masters
   * @param validForMs - from now on, to the second
   */
  async issue(user: string, validForMs = DAY_MS): Promise<ClientCertificate> {
    // As if it were made a day, less what is left, ago: openssl knows whole days only.
    const age = `-${Math.round((DAY_MS - validForMs) / 1_000)}s`;
    const files = [`${user}.key`, `${user}.crt`] as const;
    const made = [
      'openssl',
      ...NEW_KEY,
      '-keyout',
      files[0],
      '-out',
      files[1],
      '-subj',
      `/O=system:masters/CN=${user}`,
    ];
    const signed = [
      '-CA',
      'client-ca.crt',
      '-CAkey',
      'client-ca.key',
      ...['extendedKeyUsage=clientAuth', 'basicConstraints=critical,CA:FALSE'].flatMap((value) => ['-addext', value]),
    ];
    await run('faketime', ['-f', age, ...made, ...signed], { cwd: this.#folder });
    const [key, certificate] = await Promise.all(files.map((file) => readFile(`${this.#folder}/${file}`, 'utf8')));
    return { certificate: certificate ?? '', key: key ?? '' };
  }

  #openssl(...args: readonly string[]) {
    return run('openssl', [...args], { cwd: this.#folder });
  }
}
