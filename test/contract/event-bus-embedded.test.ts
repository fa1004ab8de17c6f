import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { eventBusContract } from './event-bus.contract.ts';

const STEP_MS = 10;
const LIMIT_MS = 30_000;

eventBusContract('the embedded event bus', async () => {
  const clock = new VirtualClock();
  const broker = new EmbeddedBroker({ clock });
  return {
    connect: async () => new EmbeddedBus(broker, clock),
    wait: (durationMs) => clock.advance(durationMs),
    until: async (condition, what) => {
      const endMs = clock.monotonicMs() + LIMIT_MS;
      await clock.settle();
      while (!(await condition())) {
        if (clock.monotonicMs() > endMs) throw new Error(`waited in vain for ${what}`);
        await clock.advance(STEP_MS);
      }
    },
    unixMs: () => clock.unixMs(),
    deleteConsumer: async (spec) => broker.consumer(spec).recreate(),
    [Symbol.asyncDispose]: async () => {},
  };
});
