import { generateKeyPairSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TunnelAddresses } from '../../shared/domain/tunnel-interface.ts';
import { NotReadyError, type ServerProcess, startProcess, stopProcess, waitUntilReady } from '../servers/process.ts';
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
  /** Hears why it takes longer than usual. */
  readonly onWait?: (why: string) => void;
};

/** For machines under load; what cannot start ends at once. */
const READY_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 2_000;
/** So long another lab's tunnels may take to go. */
const PATIENCE_MS = 20_000;
const RETRY_MS = 500;

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
  const { interfaceId, local, listenPort } = options;
  const driver = await startPatiently(namespace, options);
  try {
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

/** wireguard-go holds an inotify instance, which all tunnels of all labs of this machine share: others may be giving theirs back. */
async function startPatiently(namespace: NetworkNamespace, options: WireguardDeviceOptions): Promise<ServerProcess> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  for (let hasTold = false; ; hasTold = true) {
    try {
      return await startDriver(namespace, options);
    } catch (error) {
      if (!(error instanceof NotReadyError) || !error.message.includes('too many open files')) throw error;
      const limit = (await readFile('/proc/sys/fs/inotify/max_user_instances', 'utf8')).trim();
      const why = `${options.interfaceId}: wireguard-go finds no inotify instance free: each end of a tunnel holds one, and this machine allows a user ${limit}`;
      if (performance.now() > deadlineMs) {
        throw new Error(`${why}; sysctl -w fs.inotify.max_user_instances=1024 allows more`, { cause: error });
      }
      if (!hasTold) options.onWait?.(`${why}; trying again`);
      await sleep(RETRY_MS);
    }
  }
}

async function startDriver(
  namespace: NetworkNamespace,
  { interfaceId, logFile }: WireguardDeviceOptions,
): Promise<ServerProcess> {
  const driver = await startProcess({
    name: `wireguard-go ${interfaceId}`,
    ...namespace.commandLine('wireguard-go', ['-f', interfaceId]), // in the foreground: a daemon would outlive us
    logFile,
    env: { ...process.env, LOG_LEVEL: 'error' },
  });
  try {
    const isReady = async () => {
      // wg takes away the socket of a driver that does not listen yet: it is asked only then.
      await namespace.exec('grep', ['-q', ` 00010000 .*/wireguard/${interfaceId}\\.sock$`, '/proc/net/unix']);
      await namespace.exec('wg', ['show', interfaceId, 'listen-port']);
      return true;
    };
    await waitUntilReady(driver, isReady, { timeoutMs: READY_TIMEOUT_MS, pollMs: 100 });
    return driver;
  } catch (error) {
    await stopProcess(driver, STOP_TIMEOUT_MS);
    throw error;
  }
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
