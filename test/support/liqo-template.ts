import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { KubernetesObject } from './chart.ts';

/** What Liqo knows of one gateway when it renders a template for it, in the words of Go. */
export type LiqoGateway = {
  readonly Name: string;
  readonly Namespace: string;
  readonly ClusterID: string;
  readonly GatewayUID: string;
  readonly SecretName: string;
  readonly Spec: {
    readonly MTU: number;
    readonly SecretRef: { readonly Name: string };
    readonly Endpoint: {
      readonly Port: number;
      readonly Ports?: readonly number[];
      readonly NodePort?: number;
      readonly LoadBalancerIP?: string;
      readonly ServiceType?: string;
      readonly Addresses?: readonly string[];
    };
  };
};

/** The pieces of a WgGatewayServer or WgGatewayClient that Kubernetes gets in the end. */
export type RenderedGateway = {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly deployment: { readonly metadata: KubernetesObject['metadata']; readonly spec: object };
    readonly service?: { readonly metadata: KubernetesObject['metadata']; readonly spec: object };
  };
};

const program = fileURLToPath(new URL('liqo-template', import.meta.url));

/** The second stage: what Helm left in braces, filled in by Go's text/template. Rejects with Go's error. */
export async function renderForGateway(object: KubernetesObject, gateway: LiqoGateway): Promise<RenderedGateway> {
  const { template } = object.spec as { readonly template: object };
  const child = spawn('go', ['run', '-C', program, '.'], {
    stdio: 'pipe',
    env: { ...process.env, GOWORK: 'off', GOFLAGS: '-mod=mod', CGO_ENABLED: '0' },
  });
  child.stdin.end(JSON.stringify({ template, gateway }));
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as RenderedGateway;
}
