import { NatsHistory } from '../../shared/adapters/nats-history.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { startNatsHarness } from '../support/nats-harness.ts';
import { describeReal } from '../support/real-parts.ts';
import { describeDeadLetterBox } from './dead-letter-box.contract.ts';

await describeReal('on NATS', ['nats-server'], () => {
  describeDeadLetterBox(async () => {
    const harness = await startNatsHarness();
    const bus = await harness.connect();
    const history = new NatsHistory(bus.link, systemClock);
    return { bus, history, [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose]() };
  });
});
