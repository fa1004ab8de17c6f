import type { KubernetesObject } from './chart.ts';

/**
 * Kinds of other projects that the chart speaks of, as far as a name goes: their real CRDs are not here, so what
 * the API server checks of such objects is that kind, version and metadata are right, not their spec.
 */
const FOREIGN_KINDS = [
  { group: 'networking.liqo.io', version: 'v1beta1', kind: 'WgGatewayServerTemplate' },
  { group: 'networking.liqo.io', version: 'v1beta1', kind: 'WgGatewayClientTemplate' },
  { group: 'monitoring.coreos.com', version: 'v1', kind: 'PodMonitor' },
  { group: 'monitoring.coreos.com', version: 'v1', kind: 'PrometheusRule' },
  { group: 'keda.sh', version: 'v1alpha1', kind: 'ScaledObject' },
];

export const foreignCrds: readonly KubernetesObject[] = FOREIGN_KINDS.map(({ group, version, kind }) => {
  const singular = kind.toLowerCase();
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${singular}s.${group}` },
    spec: {
      ...{ group, scope: 'Namespaced', names: { kind, plural: `${singular}s`, singular } },
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  };
});
