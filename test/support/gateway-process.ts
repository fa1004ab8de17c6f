/**
 * A gateway as a process of its own, whose bus is its standard output: `node gateway-process.ts CONFIG`.
 * Each message is a line `{"subject","data"}`; at the end comes `{"unsent"}`, and each second `{"dropped"}`.
 */
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { type GatewayOptions, startGateway } from '../../shared/cli/gateway-run.ts';
import type { BusMessage } from '../../shared/domain/cloud-event.ts';
import type { EventBus } from '../../shared/ports/event-bus.ts';
import type { Meter } from '../../shared/ports/telemetry.ts';
import { silentLogger } from './silent-logger.ts';

const options = JSON.parse(process.argv[2] ?? '') as GatewayOptions;
const decoder = new TextDecoder();
let sequence = 0;

const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

const bus: Pick<EventBus, 'publish' | 'onHealthChange' | 'health'> = {
  publish: async ({ subject, data }: BusMessage) => {
    say({ subject, data: JSON.parse(decoder.decode(data)) });
    sequence += 1;
    return { stream: 'stdout', sequence, duplicate: false };
  },
  onHealthChange: () => () => {},
  health: () => ({ connected: true }),
};

const meter: Meter = {
  count: (metric, labels, by) => by !== 0 && say({ metric, labels, by }),
  gauge: () => {},
  observe: () => {},
  remove: () => {},
};

const gateway = startGateway(options, { bus: bus as EventBus, clock: systemClock, meter, log: silentLogger });
process.once('SIGTERM', async () => {
  say(await gateway.stop());
});
