import { packagePath } from '../../shared/cli/package-root.ts';
import { formatDuration } from '../../shared/domain/duration.ts';
import type { FunctionSettings } from '../../shared/domain/function-settings.ts';
import type { PingSettings } from '../../shared/domain/ping-settings.ts';
import { type ProcessSpec, startProcess } from '../servers/process.ts';
import type { LAB_GATEWAYS } from './lab.ts';
import type { CommandLine } from './network-namespace.ts';

/** The program that this code is part of: in the checkout its source, which Node runs as it is, else the bundle. */
const PROGRAM = packagePath(import.meta.url.endsWith('.ts') ? 'shared/cli/main.ts' : 'dist/wg-keepalive.js');

/** A gateway of the lab, with the uid of the resource that would be its owner. */
export type RealGateway = (typeof LAB_GATEWAYS)[number] & { readonly uid: string };

/** The command line of `wg-keepalive ARGS…`, on the Node that runs this. */
export function wgKeepalive(...args: readonly string[]): CommandLine {
  return { command: process.execPath, args: [PROGRAM, ...args] };
}

/** Flags of `wg-keepalive gateway`. */
export function gatewayFlags(
  { namespace, name, mode, clusterId, uid }: RealGateway,
  { tunnels, ping }: { readonly tunnels: number; readonly ping: PingSettings },
): string[] {
  return flags({
    namespace,
    name,
    mode,
    'remote-cluster-id': clusterId,
    'gateway-uid': uid,
    'num-interfaces': tunnels,
    'ping-enabled': ping.enabled,
    'ping-port': ping.port,
    'ping-interval': formatDuration(ping.intervalMs),
    'ping-loss-threshold': ping.lossThreshold,
    'ping-update-status-interval': formatDuration(ping.updateStatusIntervalMs),
    'ping-buffer-size': ping.bufferSizeBytes,
  });
}

/** Flags of `wg-keepalive function`. */
export function functionFlags({ updateStatusIntervalMs, gatewaySilentAfterMs }: FunctionSettings): string[] {
  return flags({
    'ping-update-status-interval': formatDuration(updateStatusIntervalMs),
    'gateway-silent-after': formatDuration(gatewaySilentAfterMs),
  });
}

function flags(values: Readonly<Record<string, string | number | boolean>>): string[] {
  return Object.entries(values).map(([flag, value]) => `--${flag}=${value}`);
}

/**
 * This process's environment without the variables of options: what a child is to do, its flags say.
 *
 * @param compileCache - folder where all share what Node makes of the sources: a dozen start at once
 */
export function environmentFor(kubeconfig: string, compileCache: string): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('WG_KEEPALIVE_'));
  return { ...Object.fromEntries(inherited), KUBECONFIG: kubeconfig, NODE_COMPILE_CACHE: compileCache };
}

/** @throws Error with the end of its log unless it ends with exit code 0 */
export async function runToEnd(spec: ProcessSpec): Promise<void> {
  const running = await startProcess(spec);
  const { code, signal } = await running.exited;
  if (code === 0) return;
  throw new Error(`${spec.name} ended with ${signal ?? `exit code ${code}`}:\n${await running.logTail()}`);
}
