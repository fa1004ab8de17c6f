import { EmbeddedStateStore } from '../../shared/adapters/embedded-state-store.ts';
import { stateStoreContract } from './state-store.contract.ts';

stateStoreContract('the embedded state store', async () => ({
  store: new EmbeddedStateStore(),
  [Symbol.asyncDispose]: async () => {},
}));
