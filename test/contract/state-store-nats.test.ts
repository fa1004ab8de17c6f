import { NatsStateStore } from '../../shared/adapters/nats-state-store.ts';
import { startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { stateStoreContract } from './state-store.contract.ts';

await describeReal('NATS', ['nats-server'], () => {
  stateStoreContract('the state store on NATS', async () => {
    const harness = await startNatsHarness();
    const { link } = await harness.connect();
    return { store: new NatsStateStore(link), [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose]() };
  });
});
