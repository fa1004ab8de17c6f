import { describe, expect, test } from 'vitest';
import { EmbeddedConnectionStore } from '../../shared/adapters/embedded-connection-store.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { embeddedCluster } from './clusters-under-test.ts';
import { aggregate, connected, describeConnectionStore, desiredConnection } from './connection-store.contract.ts';

function newKubernetes(clock = new VirtualClock()): EmbeddedKubernetes {
  let uids = 0;
  return new EmbeddedKubernetes({ clock, newUid: () => `uid-${++uids}` });
}

describe('embedded connection store', () => {
  const cluster = embeddedCluster(newKubernetes());
  describeConnectionStore(() => cluster);

  test('gives the same objects for the same calls', async () => {
    const run = async () => {
      const kubernetes = newKubernetes(new VirtualClock(Date.UTC(2026, 0, 2, 3, 4, 5, 678)));
      const store = new EmbeddedConnectionStore(kubernetes);
      const { connection } = await store.ensure(desiredConnection('ns'));
      await store.applyTunnel(connection.metadata, connected('liqo-tunnel'));
      return store.applyAggregate(connection.metadata, aggregate);
    };

    const connection = await run();

    expect(await run()).toEqual(connection);
    expect(connection.metadata).toMatchObject({
      uid: 'uid-1',
      resourceVersion: '3',
      creationTimestamp: '2026-01-02T03:04:05Z',
    });
    expect(connection.metadata.managedFields?.[0]).toEqual({
      manager: 'liqo-tunnel',
      operation: 'Apply',
      subresource: 'status',
      time: '2026-01-02T03:04:05Z',
      fieldsV1: {
        'f:status': {
          'f:tunnels': {
            'k:{"interfaceID":"liqo-tunnel"}': {
              '.': {},
              'f:interfaceID': {},
              'f:value': {},
              'f:latency': { 'f:value': {}, 'f:timestamp': {} },
              'f:lastTransitionTime': {},
            },
          },
        },
      },
    });
  });
});
