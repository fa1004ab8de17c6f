import type { Clock } from '../ports/clock.ts';
import { type ConnectionStore, StoreError } from '../ports/connection-store.ts';
import { BusError, type EventBus } from '../ports/event-bus.ts';

/** Who is no longer tried may be right again: after this long a refusal says nothing any more. */
const REMEMBER_MS = 60_000;

/**
 * What refuses us until somebody mends it: rights that are missing, a CRD that is too old. No error of one event, so it
 * belongs where people look when nothing works: readiness.
 */
export class Refusals {
  readonly #clock: Clock;
  readonly #last = new Map<string, { readonly reason: string; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Passes a call on and learns from how it ends. `what` names calls that stand and fall together. */
  async learn<Result>(what: string, call: () => Promise<Result>): Promise<Result> {
    try {
      const result = await call();
      this.#last.delete(what);
      return result;
    } catch (error) {
      if (isRefusal(error)) this.#last.set(what, { reason: error.message, atMs: this.#clock.monotonicMs() });
      throw error;
    }
  }

  health(): { readonly ok: true } | { readonly ok: false; readonly reason: string } {
    const since = this.#clock.monotonicMs() - REMEMBER_MS;
    const refusal = [...this.#last.values()].find(({ atMs }) => atMs > since);
    return refusal === undefined ? { ok: true } : { ok: false, reason: refusal.reason };
  }
}

function isRefusal(error: unknown): error is Error {
  if (error instanceof StoreError) return error.code === 'forbidden' || error.code === 'schema';
  return error instanceof BusError && error.code === 'denied';
}

export function storeThatTells(store: ConnectionStore, refusals: Refusals): ConnectionStore {
  return {
    get: (...call) => refusals.learn('get', () => store.get(...call)),
    ensure: (...call) => refusals.learn('ensure', () => store.ensure(...call)),
    applyTunnel: (...call) => refusals.learn('write', () => store.applyTunnel(...call)),
    removeTunnel: (...call) => refusals.learn('write', () => store.removeTunnel(...call)),
    applyAggregate: (...call) => refusals.learn('write', () => store.applyAggregate(...call)),
  };
}

export function busThatTells(bus: EventBus, refusals: Refusals): EventBus {
  return {
    publish: (message, options) => refusals.learn(kindOf(message.subject), () => bus.publish(message, options)),
    publishAfter: (message, last) => refusals.learn(kindOf(message.subject), () => bus.publishAfter(message, last)),
    schedule: (message, options) => refusals.learn(kindOf(message.subject), () => bus.schedule(message, options)),
    lastMessages: (stream, ...which) => refusals.learn(stream, () => bus.lastMessages(stream, ...which)),
    consume: (...call) => bus.consume(...call),
    health: () => bus.health(),
    onHealthChange: (listener) => bus.onHealthChange(listener),
    close: () => bus.close(),
  };
}

/** `decisions` of `decisions.NAMESPACE.CONNECTION`: permissions are given so. */
function kindOf(subject: string): string {
  return subject.slice(0, subject.indexOf('.'));
}
