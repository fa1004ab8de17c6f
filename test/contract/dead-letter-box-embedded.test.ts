import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { describeDeadLetterBox } from './dead-letter-box.contract.ts';

describeDeadLetterBox(async () => {
  const broker = new EmbeddedBroker({ clock: systemClock });
  const bus = new EmbeddedBus(broker, systemClock);
  return { bus, history: new EmbeddedHistory(broker), [Symbol.asyncDispose]: () => bus.close() };
});
