import { type ConnectionStore, StoreError } from '../ports/connection-store.ts';
import type { Meter } from '../ports/telemetry.ts';

/** Counts each write by the HTTP status that it ended in. */
export function meteredStore(store: ConnectionStore, meter: Meter, functionName: string): ConnectionStore {
  async function counted<T>(write: Promise<T>, isWrite: (result: T) => boolean = () => true): Promise<T> {
    try {
      const result = await write;
      if (isWrite(result)) count('200');
      return result;
    } catch (err) {
      count(err instanceof StoreError ? String(err.status) : '0');
      throw err;
    }
  }
  function count(code: string): void {
    meter.count('wg_keepalive_api_writes_total', { function: functionName, code });
  }
  return {
    get: (ref, options) => store.get(ref, options),
    ensure: (desired, options) => counted(store.ensure(desired, options), ({ change }) => change !== 'none'),
    applyTunnel: (ref, entry, options) => counted(store.applyTunnel(ref, entry, options)),
    removeTunnel: (ref, interfaceId, options) => counted(store.removeTunnel(ref, interfaceId, options)),
    applyAggregate: (ref, status, options) => counted(store.applyAggregate(ref, status, options)),
  };
}
