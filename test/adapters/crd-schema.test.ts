import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Crd, gapsOf, withGapsClosed } from '../../shared/adapters/crd-schema.ts';
import { crdFolder } from '../support/kubernetes.ts';

const text = await readFile(`${crdFolder}/networking.liqo.io_connections.yaml`, 'utf8');
const wanted = parse(text) as Crd;
// biome-ignore lint/suspicious/noExplicitAny: the tests spoil it in every way that a type would forbid
type Json = any;

/** Our CRD after somebody else's hand. */
function altered(edit: (version: Json, crd: Json) => void): Crd {
  const crd = parse(text);
  edit(crd.spec.versions[0], crd);
  return crd;
}

function statusOf(version: Json): Json {
  return version.schema.openAPIV3Schema.properties.status.properties;
}

const older = altered((version) => {
  delete statusOf(version).tunnels;
  delete statusOf(version).conditions;
});

test('finds nothing missing in our own', () => {
  expect(gapsOf(wanted, parse(text))).toEqual([]);
});

test.for<[string, (version: Json, crd: Json) => void, string]>([
  ['tunnels', (version) => delete statusOf(version).tunnels, 'status.tunnels is missing'],
  [
    'the list type, as typed clients lose it',
    (version) => delete statusOf(version).tunnels['x-kubernetes-list-type'],
    'status.tunnels has x-kubernetes-list-type unset, not "map"',
  ],
  [
    'the list keys',
    (version) => delete statusOf(version).tunnels['x-kubernetes-list-map-keys'],
    'status.tunnels has x-kubernetes-list-map-keys unset, not ["interfaceID"]',
  ],
  [
    'a field of an entry',
    (version) => delete statusOf(version).tunnels.items.properties.reason,
    'status.tunnels[].reason is missing',
  ],
  [
    'a value',
    (version) => {
      statusOf(version).value.enum = ['Connected', 'Error'];
    },
    'status.value does not take Connecting',
  ],
  [
    'a type',
    (version) => {
      statusOf(version).latency.properties.value.type = 'number';
    },
    'status.latency.value is of type number, not string',
  ],
  ['the status subresource', (version) => delete version.subresources, 'there is no status subresource'],
  [
    'the version',
    (version) => {
      version.name = 'v1';
    },
    'version v1beta1 is not served',
  ],
  [
    'the scope',
    (_, crd) => {
      crd.spec.scope = 'Cluster';
    },
    'scope is Cluster, not Namespaced',
  ],
])('names what an installed CRD lacks: %s', ([, edit, gap]) => {
  expect(gapsOf(wanted, altered(edit))).toEqual([gap]);
});

test('closes the gaps of an older CRD', () => {
  expect(gapsOf(wanted, older)).toEqual(['status.conditions is missing', 'status.tunnels is missing']);

  expect(withGapsClosed(wanted, older)).toEqual(wanted);
});

test('keeps what a newer CRD has beyond ours', () => {
  const newer = altered((version, crd) => {
    delete statusOf(version).tunnels;
    statusOf(version).score = { type: 'integer' };
    statusOf(version).value.enum = ['Connected', 'Connecting', 'Error', 'Degraded'];
    version.storage = false;
    crd.spec.versions.push({ name: 'v1', served: true, storage: true });
  });

  const closed = withGapsClosed(wanted, newer);

  expect(gapsOf(wanted, closed)).toEqual([]);
  expect(closed.spec.versions.map(({ name, storage }) => [name, storage])).toEqual([
    ['v1beta1', false],
    ['v1', true],
  ]);
  const status = closed.spec.versions[0]?.schema?.openAPIV3Schema?.properties?.status?.properties;
  expect(status?.score).toEqual({ type: 'integer' });
  expect(status?.value?.enum).toEqual(['Connected', 'Connecting', 'Error', 'Degraded']);
});

test('leaves what no addition can mend', () => {
  const cluster = altered((_, crd) => {
    crd.spec.scope = 'Cluster';
  });

  expect(gapsOf(wanted, withGapsClosed(wanted, cluster))).toEqual(['scope is Cluster, not Namespaced']);
});
