import { startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { eventBusContract } from './event-bus.contract.ts';

await describeReal('NATS', ['nats-server'], () => {
  eventBusContract('the event bus on NATS', () => startNatsHarness());
});
