import type { Delivery, Settlement } from '../ports/event-bus.ts';

/** A handler is expected to settle every delivery itself; one that throws has a bug, and its message comes again. */
const HANDLER_FAILED: Settlement = { kind: 'retry', delayMs: 1_000 };

/** What the handler says, or a retry where it throws. */
export async function settlementOf(
  handle: (delivery: Delivery) => Promise<Settlement>,
  delivery: Delivery,
): Promise<Settlement> {
  try {
    return await handle(delivery);
  } catch {
    return HANDLER_FAILED;
  }
}
