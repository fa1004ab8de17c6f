import type { Clock } from '../../shared/ports/clock.ts';
import { type CallOptions, type ConnectionStore, StoreError } from '../../shared/ports/connection-store.ts';

/** A store whose calls take `delayMs()` longer; a call that is given up meanwhile ends as one without an answer. */
export function slowStore(store: ConnectionStore, clock: Clock, delayMs: () => number): ConnectionStore {
  const wait = async (options: CallOptions | undefined) => {
    const ms = delayMs();
    if (ms <= 0) return;
    await clock.sleep(ms, options?.signal).catch((cause) => {
      throw new StoreError('unavailable', `no answer within the time: ${(cause as Error).message}`, { cause });
    });
  };
  return {
    async get(...args) {
      await wait(args[1]);
      return store.get(...args);
    },
    async ensure(...args) {
      await wait(args[1]);
      return store.ensure(...args);
    },
    async applyTunnel(...args) {
      await wait(args[2]);
      return store.applyTunnel(...args);
    },
    async removeTunnel(...args) {
      await wait(args[2]);
      return store.removeTunnel(...args);
    },
    async applyAggregate(...args) {
      await wait(args[2]);
      return store.applyAggregate(...args);
    },
  };
}
