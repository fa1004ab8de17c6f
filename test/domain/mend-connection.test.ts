import { expect, test } from 'vitest';
import type { Connection, DesiredConnection, OwnerReference } from '../../shared/domain/connection.ts';
import { mendConnection } from '../../shared/domain/mend-connection.ts';

const owner: OwnerReference = { apiVersion: 'networking.liqo.io/v1beta1', kind: 'GatewayServer', name: 'a', uid: 'u1' };
const foreign: OwnerReference = { apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'u9' };
const desired: DesiredConnection = {
  metadata: { namespace: 'ns', name: 'gw-a', labels: { cluster: 'b' }, ownerReferences: [owner] },
  spec: {
    type: 'Server',
    gatewayRef: {
      ...{ apiVersion: 'networking.liqo.io/v1beta1', kind: 'WgGatewayServer' },
      ...{ name: 'a', namespace: 'ns', uid: 'u1' },
    },
  },
};

type Change = { labels?: Record<string, string>; ownerReferences?: OwnerReference[]; spec?: Connection['spec'] };

function live({ spec = desired.spec, ...metadata }: Change = {}): Connection {
  return { metadata: { ...desired.metadata, uid: 'c1', resourceVersion: '7', ...metadata }, spec };
}

test('has nothing to mend where all that is wanted is there, and more', () => {
  expect(mendConnection(live(), desired)).toBeUndefined();
  const more = live({ labels: { cluster: 'b', theirs: 'x' }, ownerReferences: [foreign, owner] });
  expect(mendConnection(more, desired)).toBeUndefined();
});

test.for<[string, Change, Partial<DesiredConnection['metadata']>]>([
  ['a label that is missing', { labels: { theirs: 'x' } }, { labels: { theirs: 'x', cluster: 'b' } }],
  ['a label that differs', { labels: { cluster: 'c' } }, { labels: { cluster: 'b' } }],
  ['an owner that is missing', { ownerReferences: [foreign] }, { ownerReferences: [foreign, owner] }],
  ['the owner of a gateway that is gone', { ownerReferences: [{ ...owner, uid: 'u0' }] }, { ownerReferences: [owner] }],
  ['an owner that claims control', { ownerReferences: [{ ...owner, controller: true }] }, { ownerReferences: [owner] }],
  ['an owner of another API', { ownerReferences: [{ ...owner, apiVersion: 'v0' }] }, { ownerReferences: [owner] }],
  ['a type that differs', { spec: { ...desired.spec, type: 'Client' } }, {}],
  ['the uid of a gateway that is gone', { spec: withGateway({ uid: 'u0' }) }, {}],
  ['the name of another gateway', { spec: withGateway({ name: 'b', fieldPath: 'x' }) }, {}],
])('mends %s', ([, change, mended]) => {
  expect(mendConnection(live(change), desired)).toEqual({ ...desired, metadata: { ...desired.metadata, ...mended } });
});

function withGateway(change: object): Connection['spec'] {
  return { ...desired.spec, gatewayRef: { ...desired.spec.gatewayRef, ...change } };
}

test('leaves a uid that somebody else knows, and it does not', () => {
  const { uid: _, ...gatewayRef } = desired.spec.gatewayRef;

  expect(mendConnection(live(), { ...desired, spec: { ...desired.spec, gatewayRef } })).toBeUndefined();
});
