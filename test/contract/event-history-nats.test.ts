import { NatsHistory } from '../../shared/adapters/nats-history.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { eventHistoryContract } from './event-history.contract.ts';

await describeReal('event history, NATS', ['nats-server'], () => {
  eventHistoryContract(async () => {
    const nats = await startNatsHarness();
    const bus = await nats.connect();
    return {
      bus,
      history: new NatsHistory((await nats.connect()).link, systemClock),
      wait: nats.wait,
      [Symbol.asyncDispose]: () => nats[Symbol.asyncDispose](),
    };
  });
});
