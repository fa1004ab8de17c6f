import type { ConnectionStore } from '../../shared/ports/connection-store.ts';
import type { EventBus } from '../../shared/ports/event-bus.ts';

/** Ports that pass every call on, for tests that change some of them. */

export function passingBus(bus: EventBus): EventBus {
  return {
    publish: (...call) => bus.publish(...call),
    publishAfter: (...call) => bus.publishAfter(...call),
    schedule: (...call) => bus.schedule(...call),
    lastMessages: (...call) => bus.lastMessages(...call),
    consume: (...call) => bus.consume(...call),
    health: () => bus.health(),
    onHealthChange: (listener) => bus.onHealthChange(listener),
    close: () => bus.close(),
  };
}

export function passingStore(store: ConnectionStore): ConnectionStore {
  return {
    get: (...call) => store.get(...call),
    ensure: (...call) => store.ensure(...call),
    applyTunnel: (...call) => store.applyTunnel(...call),
    removeTunnel: (...call) => store.removeTunnel(...call),
    applyAggregate: (...call) => store.applyAggregate(...call),
  };
}
