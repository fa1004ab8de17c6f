import type { ConnectionRef } from '../../shared/domain/connection.ts';
import { unlistingKey } from '../../shared/domain/subjects.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';

/** By whom an entry is being taken away, and since when, in the bucket. */
type Unlisting = { readonly eventId: string; readonly atUnixMs: number };

/** Whoever has not ended it by then never will: it comes from a process that died, and what woke that one comes no more. */
const ENDS_AFTER_MS = 3_600_000;

/**
 * Who began to take an entry away, and was not seen to end it: the `unlisted` that goes before may be told by then, and
 * tunnel-status may not have heard of it yet.
 */
export function unlistingMarks({ state, clock }: Pick<FunctionPorts, 'state' | 'clock'>) {
  async function of(ref: ConnectionRef, interfaceId: string): Promise<Unlisting | undefined> {
    return (await state.get(unlistingKey(ref, interfaceId)))?.value as Unlisting | undefined;
  }

  return {
    async begin(ref: ConnectionRef, interfaceId: string, eventId: string): Promise<void> {
      const mark: Unlisting = { eventId, atUnixMs: clock.unixMs() };
      await state.put(unlistingKey(ref, interfaceId), mark);
    },

    async isBegun(ref: ConnectionRef, interfaceId: string): Promise<boolean> {
      return (await of(ref, interfaceId)) !== undefined;
    },

    /** What another one has begun is for that one to end. */
    async end(ref: ConnectionRef, interfaceIds: Iterable<string>, eventId: string): Promise<void> {
      for (const interfaceId of interfaceIds) {
        const mark = await of(ref, interfaceId);
        if (mark === undefined) continue;
        const isOver = clock.unixMs() - mark.atUnixMs > ENDS_AFTER_MS;
        if (isOver || mark.eventId === eventId) await state.delete(unlistingKey(ref, interfaceId));
      }
    },
  };
}
