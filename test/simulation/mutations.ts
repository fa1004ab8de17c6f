import type { CloudEvent } from '../../shared/domain/cloud-event.ts';
import type { TunnelEvent } from '../../shared/domain/observation.ts';
import { tunnelStateKey } from '../../shared/domain/subjects.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import type { EventContext, FunctionDefinition } from '../../shared/runtime/define-function.ts';
import { passingBus, passingStore } from '../support/passing.ts';
import { type Faults, NO_FAULTS } from './faults.ts';
import { REF, type World } from './world.ts';

/** A fault planted in one function: what the simulation must catch within a few seeds, under the faults that show it. */
export type Mutation = {
  readonly name: string;
  readonly of: string;
  readonly faults: Faults;
  /** Changes the handler, … */
  readonly definition?: (definition: FunctionDefinition, world: World) => FunctionDefinition;
  /** … or the ports that it and the runtime around it are given. */
  readonly ports?: (ports: FunctionPorts, world: World) => Partial<FunctionPorts>;
};

const RESTARTS: Faults = { ...NO_FAULTS, gatewayRestart: 0.05, zombieGateway: true };
const REORDERED: Faults = { ...NO_FAULTS, reorder: 0.3 };
const CRASHES: Faults = { ...NO_FAULTS, crash: 0.02, freeze: 0.005, apiDelayMs: 400 };
const LATE_WRITES: Faults = { ...NO_FAULTS, apiLate: 0.1, apiDelayMs: 400 };
const EDITS: Faults = { ...NO_FAULTS, scale: 0.1, foreignPut: 0.05, deleteConnection: 0.05 };

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'no fence: every gateway run counts as the newest',
    of: 'tunnel-status',
    faults: RESTARTS,
    definition: onEvents(() => {
      let sequence = 0;
      return (event) => ({ ...event, gatewayEpoch: 9_000_000_000_000, sequence: ++sequence });
    }),
  },
  {
    name: 'no order: an older observation counts as the newest',
    of: 'tunnel-status',
    faults: REORDERED,
    definition: onEvents(() => {
      let sequence = 0;
      return (event) => ('sequence' in event ? { ...event, sequence: ++sequence } : event);
    }),
  },
  {
    name: 'throttle by the wall clock',
    of: 'tunnel-status',
    faults: { ...NO_FAULTS, clockStep: 0.2 },
    definition: onEvents(
      (world) => (event) =>
        'monotonicMs' in event ? { ...event, monotonicMs: world.clock.unixMs() + world.clock.wallClockErrorMs } : event,
    ),
  },
  {
    name: 'no throttle',
    of: 'tunnel-status',
    faults: NO_FAULTS,
    definition: onEvents(() => {
      let monotonicMs = 0;
      return (event) => {
        monotonicMs += 1e6;
        return 'monotonicMs' in event ? { ...event, monotonicMs } : event;
      };
    }),
  },
  {
    name: 'ack before write',
    of: 'tunnel-status',
    faults: CRASHES,
    ports: ({ bus }) => ({
      bus: {
        ...passingBus(bus),
        consume: (consumer, handle, signal) =>
          bus.consume(
            consumer,
            async (delivery) => {
              void handle(delivery);
              return { kind: 'ack' };
            },
            signal,
          ),
      },
    }),
  },
  {
    name: 'no precondition: writes whatever has happened since it read',
    of: 'tunnel-status',
    faults: LATE_WRITES,
    ports: ({ connections }) => ({
      connections: {
        ...passingStore(connections),
        applyTunnel: (ref, entry, options = {}) => {
          const { resourceVersion: _, ...rest } = options;
          return connections.applyTunnel(ref, entry, rest);
        },
      },
    }),
  },
  {
    name: 'trusts its copy of the state for ever',
    of: 'tunnel-status',
    faults: CRASHES,
    definition: onContext((context) => ({ ...context, uninterrupted: true })),
  },
  {
    name: 'knows nothing of what the replica before it only throttled',
    of: 'tunnel-status',
    faults: { ...NO_FAULTS, crash: 0.02, resend: 0.3 },
    definition: onContext((context) => ({ ...context, previous: async () => undefined })),
  },
  {
    name: 'forgets what it heard when all its attempts met a conflict',
    of: 'tunnel-status',
    // All five attempts of an event have to fail: at 0.7 that is one event in six, most of them of no transition.
    faults: { ...NO_FAULTS, apiConflict: 0.9 },
    definition: (definition, world) => ({
      ...definition,
      create(ports, settings) {
        const instance = definition.create(ports, settings);
        return {
          ...instance,
          async handle(event, context) {
            const { interfaceId } = event.data as TunnelEvent;
            const key = tunnelStateKey(REF, interfaceId);
            const before = await world.state.get(key);
            const outcome = await instance.handle(event, context);
            if (outcome.reason === 'Conflict' && before !== undefined) await world.state.put(key, before.value);
            return outcome;
          },
        };
      },
    }),
  },
  {
    name: 'does not tell what it wrote before it died',
    of: 'tunnel-status',
    faults: CRASHES,
    definition: onContext((context) => ({ ...context, deliveryCount: 1 })),
  },
  {
    name: 'does not look at the uid',
    of: 'tunnel-status',
    faults: { ...NO_FAULTS, deleteConnection: 0.1 },
    definition: onEvents(() => (event) => (event.kind === 'listed' ? { ...event, connectionUid: 'any' } : event)),
  },
  {
    name: 'initialises entries under a manager of its own',
    of: 'connection-ensure',
    faults: EDITS,
    ports: ({ connections }, world) => ({
      connections: {
        ...passingStore(connections),
        applyTunnel: async (_ref, entry) =>
          world.kubernetes.foreignPut(REF, 'connection-ensure', (status) => ({
            ...status,
            tunnels: [...(status.tunnels ?? []), entry],
          })),
      },
    }),
  },
  {
    name: 'leaves stale entries',
    of: 'connection-ensure',
    faults: EDITS,
    ports: ({ connections }) => ({
      connections: {
        ...passingStore(connections),
        removeTunnel: async (ref) => {
          const connection = await connections.get(ref);
          if (connection === undefined) throw new Error('gone');
          return connection;
        },
      },
    }),
  },
  {
    name: 'aggregates without looking at conflicts',
    of: 'connection-aggregate',
    faults: LATE_WRITES,
    ports: ({ connections }) => ({
      connections: {
        ...passingStore(connections),
        applyAggregate: (ref, status, options = {}) => {
          const { resourceVersion: _, ...rest } = options;
          return connections.applyAggregate(ref, status, rest);
        },
      },
    }),
  },
  {
    name: 'arms the timer of a gateway that speaks once and never again',
    of: 'gateway-silence',
    faults: NO_FAULTS,
    ports: ({ bus }) => ({ bus: { ...passingBus(bus), schedule: async () => 'armed' } }),
  },
  {
    name: 'drops malformed events',
    of: 'tunnel-status',
    faults: { ...NO_FAULTS, malformed: 0.1 },
    ports: ({ bus }) => ({
      bus: {
        ...passingBus(bus),
        publish: async (message, options) =>
          message.subject.startsWith('dead.')
            ? { stream: 'DEAD_LETTERS', sequence: 1, duplicate: false }
            : bus.publish(message, options),
      },
    }),
  },
];

/** Handlers that see other events than those that came. */
function onEvents(change: (world: World) => (event: TunnelEvent) => TunnelEvent): NonNullable<Mutation['definition']> {
  return (definition, world) => ({
    ...definition,
    create(ports, settings) {
      const changed = change(world);
      const instance = definition.create(ports, settings);
      const handle = (event: CloudEvent, context: EventContext) =>
        instance.handle({ ...event, data: changed(event.data as TunnelEvent) }, context);
      return { ...instance, handle };
    },
  });
}

function onContext(change: (context: EventContext) => EventContext): NonNullable<Mutation['definition']> {
  return (definition) => ({
    ...definition,
    create(ports, settings) {
      const instance = definition.create(ports, settings);
      return { ...instance, handle: (event, context) => instance.handle(event, change(context)) };
    },
  });
}
