import { describe } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedHistory } from '../../shared/adapters/embedded-history.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { eventHistoryContract } from './event-history.contract.ts';

describe('event history, embedded', () => {
  eventHistoryContract(async () => {
    const clock = new VirtualClock();
    const broker = new EmbeddedBroker({ clock });
    const bus = new EmbeddedBus(broker, clock);
    return {
      bus,
      history: new EmbeddedHistory(broker),
      wait: (durationMs) => clock.advance(durationMs),
      [Symbol.asyncDispose]: () => bus.close(),
    };
  });
});
