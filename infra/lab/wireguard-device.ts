import { generateKeyPairSync } from 'node:crypto';
import type { TunnelAddresses } from '../../shared/domain/tunnel-interface.ts';
import { startProcess, stopProcess, waitUntilReady } from '../servers/process.ts';
import type { NetworkNamespace } from './network-namespace.ts';

/** One end of a tunnel: an interface and the process that is its driver; both end together. */
export interface WireguardDevice extends AsyncDisposable {
  readonly listenPort: number;
}

export type WireguardDeviceOptions = TunnelAddresses & {
  readonly privateKey: string;
  readonly peerPublicKey: string;
  /** `address:port` in the underlay. */
  readonly peerEndpoint: string;
  readonly listenPort: number;
  readonly logFile: string;
};

/** For machines under load; what cannot start ends at once. */
const READY_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 2_000;

/** A pair as `wg genkey` and `wg pubkey` make it: 32 bytes each, base64. */
export function createWireguardKeys(): { readonly privateKey: string; readonly publicKey: string } {
  const { d = '', x = '' } = generateKeyPairSync('x25519').privateKey.export({ format: 'jwk' });
  const base64 = (value: string) => Buffer.from(value, 'base64url').toString('base64');
  return { privateKey: base64(d), publicKey: base64(x) };
}

/** @throws NotReadyError with the end of its log if wireguard-go does not start; Error with what the kernel refused */
export async function startWireguardDevice(
  namespace: NetworkNamespace,
  options: WireguardDeviceOptions,
): Promise<WireguardDevice> {
  const { interfaceId, local, listenPort, logFile } = options;
  const driver = await startProcess({
    name: `wireguard-go ${interfaceId}`,
    ...namespace.commandLine('wireguard-go', ['-f', interfaceId]), // in the foreground: a daemon would outlive us
    logFile,
    env: { ...process.env, LOG_LEVEL: 'error' },
  });
  try {
    const isReady = async () => {
      await namespace.exec('wg', ['show', interfaceId, 'listen-port']);
      return true;
    };
    await waitUntilReady(driver, isReady, { timeoutMs: READY_TIMEOUT_MS, pollMs: 100 });
    // wg opens a file, and what Node gives a child as its standard input is a socket, which cannot be opened again.
    await namespace.exec('sh', ['-c', 'cat | wg setconf "$0" /dev/stdin', interfaceId], configuration(options));
    await namespace.exec(
      'ip',
      ['-batch', '-'],
      `address add ${local}/30 dev ${interfaceId}
link set ${interfaceId} up
`,
    );
  } catch (error) {
    await stopProcess(driver, STOP_TIMEOUT_MS);
    throw error;
  }
  return {
    listenPort,
    [Symbol.asyncDispose]: async () => {
      await stopProcess(driver, STOP_TIMEOUT_MS);
    },
  };
}

function configuration({ privateKey, listenPort, peerPublicKey, peerEndpoint, peer }: WireguardDeviceOptions): string {
  return `[Interface]
PrivateKey = ${privateKey}
ListenPort = ${listenPort}
[Peer]
PublicKey = ${peerPublicKey}
Endpoint = ${peerEndpoint}
AllowedIPs = ${peer}/32
`;
}
