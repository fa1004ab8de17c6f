import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type Certificate = { readonly caFile: string; readonly certFile: string; readonly keyFile: string };

/**
 * A certificate authority for one day and a certificate for loopback that it signed, as PEM files in `folder`.
 * The client checks a server that it knows by address only as `localhost`.
 */
export async function makeCertificate(folder: string): Promise<Certificate> {
  const openssl = (...args: readonly string[]) => run('openssl', [...args], { cwd: folder });
  const newKey = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];
  await openssl(...newKey, '-keyout', 'ca.key', '-out', 'ca.crt', '-subj', '/CN=test authority');
  const leaf = [
    '-addext',
    'subjectAltName=DNS:localhost,IP:127.0.0.1',
    '-addext',
    'basicConstraints=critical,CA:FALSE',
  ];
  await openssl(
    ...[...newKey, '-keyout', 'server.key', '-out', 'server.crt', '-subj', '/CN=nats', ...leaf],
    ...['-CA', 'ca.crt', '-CAkey', 'ca.key'],
  );
  return { caFile: `${folder}/ca.crt`, certFile: `${folder}/server.crt`, keyFile: `${folder}/server.key` };
}
