import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { CommandLine } from '../../infra/lab/network-namespace.ts';
import type { GatewayOptions } from '../../shared/cli/gateway-run.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import { DEFAULT_PING_SETTINGS, type PingSettings } from '../../shared/domain/ping-settings.ts';
import { interfaceIdOf, type TunnelEndpoint } from '../../shared/domain/tunnel-interface.ts';

const entry = join(import.meta.dirname, 'gateway-process.ts');

/** Each test file has a port of its own: the addresses of loopback are its tunnels. */
export function loopbackTunnel(index: number, port: number): TunnelEndpoint {
  const at = (side: number) => ({ address: `127.${side}.0.${index + 1}`, port });
  return { interfaceId: interfaceIdOf(index), local: at(1), peer: at(2) };
}

export function gatewayOptions(
  tunnels: readonly TunnelEndpoint[],
  settings: Partial<PingSettings>,
  suspectIntervalMs?: number,
): GatewayOptions {
  return {
    ...{ namespace: 'liqo-tenant-rome', name: 'rome', mode: 'server', remoteClusterId: 'rome', runId: 'run1', tunnels },
    settings: { ...DEFAULT_PING_SETTINGS, ...settings },
    ...(suspectIntervalMs === undefined ? {} : { suspectIntervalMs }),
  };
}

/** A gateway in a process of its own, with its engine in a thread of its own, as it runs in production. */
export class GatewayProcess {
  readonly observations: Observation[] = [];
  readonly counts = new Map<string, number>();
  readonly child: ChildProcess;
  readonly stderr: string[] = [];
  unsent: number | undefined;

  /** @param launch - turns the command line into another that starts it elsewhere, in a network namespace say */
  constructor(
    options: GatewayOptions,
    launch: (command: string, args: readonly string[]) => CommandLine = (command, args) => ({ command, args }),
    environment: NodeJS.ProcessEnv = {},
  ) {
    const { command, args } = launch(process.execPath, [entry, JSON.stringify(options)]);
    this.child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...environment } });
    this.child.stderr?.on('data', (chunk) => this.stderr.push(String(chunk)));
    createInterface({ input: this.child.stdout as NodeJS.ReadableStream }).on('line', (line) => this.#take(line));
  }

  of(index: number): Observation[] {
    return this.observations.filter(({ interfaceId }) => interfaceId === interfaceIdOf(index));
  }

  last(index = 0): Observation | undefined {
    return this.of(index).at(-1);
  }

  /** Sum of a counter's increments, by the value of one label where that is given. */
  count(metric: string, label = ''): number {
    return this.counts.get(`${metric} ${label}`) ?? 0;
  }

  /** Ends it as Kubernetes does. @returns its exit code */
  async stop(): Promise<number | null> {
    if (this.child.exitCode !== null) return this.child.exitCode;
    this.child.kill('SIGTERM');
    const [code] = (await once(this.child, 'exit')) as [number | null];
    return code;
  }

  #take(line: string): void {
    const { subject, data, metric, labels, by, unsent } = JSON.parse(line);
    if (subject?.startsWith('keepalive.')) this.observations.push(data);
    if (unsent !== undefined) this.unsent = unsent;
    if (metric === undefined) return;
    for (const label of new Set(['', ...Object.values(labels as Record<string, string>)])) {
      this.counts.set(`${metric} ${label}`, this.count(metric, label) + by);
    }
  }
}
