import { afterAll, beforeAll } from 'vitest';
import { KubernetesUnderTest } from '../support/kubernetes.ts';
import { describeReal } from '../support/real-parts.ts';
import { realCluster } from './clusters-under-test.ts';
import { type ClusterUnderTest, describeConnectionStore } from './connection-store.contract.ts';

await describeReal('Kubernetes connection store', ['kube-apiserver', 'etcd'], () => {
  let cluster: ClusterUnderTest;
  const cleanUp = new AsyncDisposableStack();

  beforeAll(async () => {
    const kubernetes = cleanUp.use(await KubernetesUnderTest.start());
    const { relay, server } = await kubernetes.relay();
    cluster = realCluster(kubernetes, await kubernetes.client({ server }), relay);
  }, 120_000);

  afterAll(() => cleanUp.disposeAsync(), 60_000);

  describeConnectionStore(() => cluster);
});
